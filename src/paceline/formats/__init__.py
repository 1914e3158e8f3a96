"""The written forms of sizes, times, YAML lines, terminal tables and SVG pictures."""
