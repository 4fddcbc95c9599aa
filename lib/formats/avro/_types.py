"""The types of Spark that hold what Avro has, and the other way."""

from __future__ import annotations

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

from ._schema import LOCAL, MICROS, NUMBERS, Avro, Field, SchemaError

_PRIMITIVES: dict[str, DataType] = {
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "bytes": BinaryType(),
    "string": StringType(),
}


def spark_type(kind: Avro) -> DataType:
    """Return the type of Spark that holds a type's values; SchemaError where none does."""
    if kind.logical:
        return _of_logical(kind)
    if kind.kind == "record":
        fields = [
            StructField(each.name, spark_type(each.type), each.type.nullable)
            for each in kind.fields
        ]
        return StructType(fields)
    if kind.kind == "array":
        return ArrayType(spark_type(kind.within), kind.within.nullable)
    if kind.kind == "map":
        return MapType(StringType(), spark_type(kind.within), kind.within.nullable)
    if kind.kind == "union":
        return spark_type(without_null(kind))
    if kind.kind == "null":
        raise SchemaError("a null that can be nothing else has no type in a table")
    return {"fixed": BinaryType(), "enum": StringType()}.get(kind.kind) or _PRIMITIVES[kind.kind]


def _of_logical(kind: Avro) -> DataType:
    if kind.logical == "decimal":
        return DecimalType(kind.precision, kind.scale)
    if kind.logical == "date":
        return DateType()
    if kind.logical == "uuid":
        return StringType()
    return TimestampNTZType() if kind.logical.startswith(LOCAL) else TimestampType()


def without_null(kind: Avro) -> Avro:
    """Return what a value that is not null is; of two numbers the wider one.

    Raises SchemaError for a union of other types: a column has one.
    """
    if kind.kind != "union":
        return kind
    others = [each for each in kind.branches if each.kind != "null"]
    if len(others) == 1:
        return others[0]
    order = list(NUMBERS)
    pairs = ({"int", "long"}, {"float", "double"})
    if {each.kind for each in others} in pairs and not any(each.logical for each in others):
        return max(others, key=lambda each: order.index(each.kind))
    raise SchemaError(f"the union {kind}: a column has one type")


_WANTED: dict[DataType, Avro] = {
    **{kind: Avro(name, loose=True) for name, kind in _PRIMITIVES.items()},
    DateType(): Avro("int", logical="date", loose=True),
    TimestampType(): Avro("long", logical=MICROS, loose=True),
    TimestampNTZType(): Avro("long", logical=LOCAL + MICROS, loose=True),
}


def wanted(kind: DataType, required: bool = False) -> Avro:
    """Return the type that takes what can be read as a type of Spark; SchemaError where none can.

    required: whether a null is refused.
    """
    if isinstance(kind, StructType):
        fields = tuple(
            Field(each.name, wanted(each.dataType, not each.nullable), filled=each.nullable)
            for each in kind
        )
        found = Avro("record", fields=fields, loose=True)
    elif isinstance(kind, ArrayType):
        found = Avro("array", items=wanted(kind.elementType), loose=True)
    elif isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        found = Avro("map", items=wanted(kind.valueType), loose=True)
    elif isinstance(kind, DecimalType):
        digits = {"precision": kind.precision, "scale": kind.scale}
        found = Avro("bytes", logical="decimal", loose=True, **digits)  # type: ignore[arg-type]
    elif kind in _WANTED:
        found = _WANTED[kind]
    else:
        raise SchemaError(f"{kind.simpleString()}, of which Avro has nothing")
    return found if required else Avro("union", branches=(Avro("null"), found))
