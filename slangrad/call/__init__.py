"""From a Python call to a launch: key, resolution, binding, kernel text, plan."""
