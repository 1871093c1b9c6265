"""Images: files, bitmaps on the host, textures that are loaded from them, and the viewer tev."""
