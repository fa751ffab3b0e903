"""From recognised regions to files: joining lines, document structure, and one writer a format. Import the modules."""
