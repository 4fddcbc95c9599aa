"""Percolator: match streams of documents with standing queries."""
