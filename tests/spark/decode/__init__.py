"""Records of ranges as Arrow: three engines, one answer."""
