"""Tests of the neural network in examples/mlp."""
