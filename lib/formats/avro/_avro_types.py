"""Conversion between Avro types and Spark types."""

from __future__ import annotations

from functools import partial

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ._avro_schema import (
    LOCAL,
    MICROS,
    MILLIS,
    NANOS,
    NUMBERS,
    RECURSIVE,
    AvroField,
    AvroType,
    SchemaError,
)

_PRIMITIVES: dict[str, DataType] = {
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "bytes": BinaryType(),
    "string": StringType(),
}
_SCALARS: dict[str, DataType] = {
    **_PRIMITIVES,
    "fixed": BinaryType(),
    "enum": StringType(),
    "uuid": StringType(),
    "date": DateType(),
    **dict.fromkeys((MILLIS, MICROS, NANOS), TimestampType()),
    **dict.fromkeys((LOCAL + MILLIS, LOCAL + MICROS, LOCAL + NANOS), TimestampNTZType()),
}
"""The Spark types by logical type, or by type without one."""
_MAX_DIGITS = 38


def spark_type(avro_type: AvroType) -> DataType:
    """Return the Spark type for an Avro type; raise SchemaError if there is none."""
    if avro_type.logical == "decimal":
        if avro_type.precision > _MAX_DIGITS:
            raise SchemaError(
                f"decimal with {avro_type.precision} digits; the maximum is {_MAX_DIGITS}"
            )
        return DecimalType(avro_type.precision, avro_type.scale)
    if avro_type.type_name == "record":
        fields = [
            StructField(field.name, spark_type(field.type), field.type.is_nullable)
            for field in avro_type.fields
        ]
        return StructType(fields)
    if avro_type.type_name in ("array", "map"):
        element = avro_type.element_type
        inner_type = spark_type(element)
        if avro_type.type_name == "array":
            return ArrayType(inner_type, element.is_nullable)
        return MapType(StringType(), inner_type, element.is_nullable)
    if avro_type.type_name == "union":
        return spark_type(without_null(avro_type))
    if avro_type.type_name == RECURSIVE:
        raise SchemaError(f"recursive record {avro_type.name}")
    if avro_type.type_name == "null":
        raise SchemaError("the type null has no column type")
    return _SCALARS[avro_type.logical or avro_type.type_name]


def without_null(avro_type: AvroType) -> AvroType:
    """Return the type of values other than null; for two numeric types the wider one.

    Raises SchemaError for any other union.
    """
    if avro_type.type_name != "union":
        return avro_type
    non_null = [branch for branch in avro_type.branches if branch.type_name != "null"]
    if len(non_null) == 1:
        return non_null[0]
    names = {branch.logical or branch.type_name for branch in non_null}
    if names in ({"int", "long"}, {"float", "double"}):
        return max(non_null, key=lambda branch: NUMBERS.index(branch.type_name))
    raise SchemaError(f"the union {avro_type} has no single column type")


_avro_type = partial(AvroType, from_spark_type=True)
_AVRO_TYPES: dict[DataType, AvroType] = {
    **{kind: _avro_type(name) for name, kind in _PRIMITIVES.items()},
    DateType(): _avro_type("int", logical="date"),
    TimestampType(): _avro_type("long", logical=MICROS),
    TimestampNTZType(): _avro_type("long", logical=LOCAL + MICROS),
}


def to_avro_type(data_type: DataType, required: bool = False) -> AvroType:
    """Return an Avro type that matches all values which convert to a Spark type.

    Raises SchemaError if there is none.

    required: whether nulls are invalid.
    """
    if isinstance(data_type, StructType):
        fields = [
            AvroField(
                field.name, to_avro_type(field.dataType, not field.nullable), (), field.nullable
            )
            for field in data_type
        ]
        avro_type = _avro_type("record", fields=tuple(fields))
    elif isinstance(data_type, ArrayType):
        avro_type = _avro_type("array", items=to_avro_type(data_type.elementType))
    elif isinstance(data_type, MapType) and isinstance(data_type.keyType, StringType):
        avro_type = _avro_type("map", items=to_avro_type(data_type.valueType))
    elif isinstance(data_type, DecimalType):
        precision, scale = data_type.precision, data_type.scale
        avro_type = _avro_type("bytes", logical="decimal", precision=precision, scale=scale)
    elif data_type in _AVRO_TYPES:
        avro_type = _AVRO_TYPES[data_type]
    else:
        raise SchemaError(f"{data_type.simpleString()} has no Avro type")
    return avro_type if required else AvroType("union", branches=(AvroType("null"), avro_type))
