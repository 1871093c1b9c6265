"""Kernels of lanes: a body of IR between what many of them begin with, which gives it the numbers of its thread.

program_of("store %y_at, %x")           %x and %k are loaded, %y_at and %z_at are where results go
program_of(body, head)                  another beginning
"""

from slangrad.ir.ops.core import Program
from tests.ir.parse_text import parse_program

HEAD = """
struct "Arguments" { n: i32, x: ptr<f32, global>, k: ptr<i32, global>,
  y: ptr<f32, global>, z: ptr<i32, global> }
arguments struct "Arguments"
func @kernel() -> () {kernel=true} {
  %t = thread_id {axis=0} : u32
  %n_at = parameter {name="n"} : ptr<i32, constant>
  %n = load %n_at : i32
  %x_in = parameter {name="x"} : ptr<ptr<f32, global>, constant>
  %xs = load %x_in : ptr<f32, global>
  %k_in = parameter {name="k"} : ptr<ptr<i32, global>, constant>
  %ks = load %k_in : ptr<i32, global>
  %y_in = parameter {name="y"} : ptr<ptr<f32, global>, constant>
  %ys = load %y_in : ptr<f32, global>
  %z_in = parameter {name="z"} : ptr<ptr<i32, global>, constant>
  %zs = load %z_in : ptr<i32, global>
  %x_at = offset %xs, %t
  %x = load %x_at : f32
  %k_at = offset %ks, %t
  %k = load %k_at : i32
  %y_at = offset %ys, %t
  %z_at = offset %zs, %t
  %zero = const 0.0 : f32
  %one = const 1.0 : f32
  %0 = const 0 : i32
  %1 = const 1 : i32
  %3 = const 3 : i32
"""


def program_of(body: str, head: str = HEAD) -> Program:
    """The program of a kernel that ends after its body."""
    return parse_program(f"{head}{body}\n  yield\n}}\n")
