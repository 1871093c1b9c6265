"""The network that `slangrad train-mlp` trains; `examples/mlp` is a link to this folder."""
