"""Delta tables: commits, layouts, schemas and catalogs."""
