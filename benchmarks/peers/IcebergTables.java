import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.UpdateProperties;
import org.apache.iceberg.hadoop.HadoopTables;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog of Iceberg tables in folders: NAMESPACE/TABLE in the folder `warehouse`.
 *
 * <p>Iceberg's own catalogs, of Spark 4.1, do not load in Spark 4.2, but its tables work.
 */
public final class IcebergTables implements TableCatalog, SupportsNamespaces {
    private static final class IcebergTable extends SparkTable {
        IcebergTable(org.apache.iceberg.Table table) {
            super(table);
        }

        // The inherited method calls one that Spark 4.2 does not have.
        @Override
        public Column[] columns() {
            return CatalogV2Util.structTypeToV2Columns(SparkSchemaUtil.convert(table().schema()), false);
        }
    }

    private final HadoopTables tables = new HadoopTables(new Configuration());
    private String name;
    private String warehouse;

    @Override
    public void initialize(String given, CaseInsensitiveStringMap options) {
        name = given;
        warehouse = options.get("warehouse");
    }

    @Override
    public String name() {
        return name;
    }

    private String path(Identifier table) {
        return Path.of(warehouse, table.namespace()).resolve(table.name()).toString();
    }

    @Override
    public Table loadTable(Identifier table) throws NoSuchTableException {
        if (!tables.exists(path(table))) {
            throw new NoSuchTableException(table);
        }
        return new IcebergTable(tables.load(path(table)));
    }

    @Override
    public Table createTable(Identifier table, TableInfo info) {
        Map<String, String> properties = new HashMap<>(info.properties());
        properties.keySet().removeIf(CatalogV2Util.TABLE_RESERVED_PROPERTIES()::contains);
        tables.create(
                SparkSchemaUtil.convert(info.schema()), PartitionSpec.unpartitioned(), properties, path(table));
        return new IcebergTable(tables.load(path(table)));
    }

    @Override
    public Table alterTable(Identifier table, TableChange... changes) {
        UpdateProperties update = tables.load(path(table)).updateProperties();
        for (TableChange change : changes) {
            if (change instanceof TableChange.SetProperty property) {
                update.set(property.property(), property.value());
            } else {
                throw new UnsupportedOperationException(change.toString());
            }
        }
        update.commit();
        return new IcebergTable(tables.load(path(table)));
    }

    @Override
    public boolean dropTable(Identifier table) {
        return tables.dropTable(path(table));
    }

    @Override
    public void renameTable(Identifier from, Identifier to) {
        throw new UnsupportedOperationException();
    }

    @Override
    public Identifier[] listTables(String[] namespace) {
        return new Identifier[0];
    }

    @Override
    public boolean namespaceExists(String[] namespace) {
        return true;
    }

    @Override
    public String[][] listNamespaces() {
        return new String[0][];
    }

    @Override
    public String[][] listNamespaces(String[] namespace) {
        return new String[0][];
    }

    @Override
    public Map<String, String> loadNamespaceMetadata(String[] namespace) {
        return Map.of();
    }

    @Override
    public void createNamespace(String[] namespace, Map<String, String> metadata) {}

    @Override
    public void alterNamespace(String[] namespace, NamespaceChange... changes) {}

    @Override
    public boolean dropNamespace(String[] namespace, boolean cascade) {
        return false;
    }
}
