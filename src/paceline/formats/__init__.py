"""How sizes, times, YAML lines, terminal tables and SVG pictures are written."""
