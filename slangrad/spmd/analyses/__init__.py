"""Read only: how values differ from lane to lane and in a group, and how many lanes a kernel gets."""
