"""Textures on the host: formats of texels, descriptions, and textures with their memory."""
