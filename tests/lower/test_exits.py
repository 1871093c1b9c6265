"""Early exits become flags, branches become `if`, loops `for` and `while`: the IR of statements."""

from slangrad.ir.text.printer import print_program
from tests.lower.lowering import lines, lower, printed


def test_a_return_in_one_arm_puts_the_rest_into_the_other():
    text = """
        int f(int x)
        {
            if (x < 0)
                return 0;
            x = x * 2;
            return x;
        }
    """
    assert printed(text) == lines("""
        func @f(no_diff %x: i32) -> (no_diff i32) {
          %0 = const 0 : i32
          %1 = less %x, %0
          %2 = if %1 : i32 {
            yield %0
          } {
            %3 = const 2 : i32
            %4 = mul %x, %3
            yield %4
          }
          yield %2
        }
    """)


def test_a_counted_loop():
    """The number of rounds is known before; nothing runs where the bound is not reached."""
    text = """
        int f(int n)
        {
            int s = 0;
            for (int i = 0; i < n; i++)
                s += i;
            return s;
        }
    """
    assert printed(text) == lines("""
        func @f(no_diff %n: i32) -> (no_diff i32) {
          %s = const 0 : i32
          %0 = bitcast %n : u32
          %1 = const 0 : u32
          %2 = less %s, %n
          %3 = select %2, %0, %1
          %s.1 = for %3, %s : i32 (%i: u32, %s.2: i32) {
            %4 = convert %i : i32
            %5 = add %s.2, %4
            yield %5
          }
          yield %s.1
        }
    """)


def test_continue_puts_the_rest_of_the_round_into_an_arm():
    text = """
        int f(int n)
        {
            int s = 0;
            for (int i = 0; i < n; i++)
            {
                if (i == 2)
                    continue;
                s += i;
            }
            return s;
        }
    """
    assert printed(text) == lines("""
        func @f(no_diff %n: i32) -> (no_diff i32) {
          %s = const 0 : i32
          %0 = bitcast %n : u32
          %1 = const 0 : u32
          %2 = less %s, %n
          %3 = select %2, %0, %1
          %s.1 = for %3, %s : i32 (%i: u32, %s.2: i32) {
            %4 = convert %i : i32
            %5 = const 2 : i32
            %6 = equal %4, %5
            %7 = if %6 : i32 {
              yield %s.2
            } {
              %8 = add %s.2, %4
              yield %8
            }
            yield %7
          }
          yield %s.1
        }
    """)


def test_break_is_a_flag_that_the_condition_looks_at():
    text = """
        int f(int n)
        {
            int s = 0;
            while (true)
            {
                s += 1;
                if (s > n)
                    break;
                s += 2;
            }
            return s;
        }
    """
    assert printed(text) == lines("""
        func @f(no_diff %n: i32) -> (no_diff i32) {
          %0 = const false : bool
          %s = const 0 : i32
          %s.1, %1 = while %s, %0 : i32, bool (%s.2: i32, %2: bool) {
            %3 = not %2
            yield %3
          } (%s.3: i32, %4: bool) {
            %5 = const 1 : i32
            %6 = add %s.3, %5
            %7 = less %n, %6
            %8 = if %7 : i32 {
              yield %6
            } {
              %9 = const 2 : i32
              %10 = add %6, %9
              yield %10
            }
            yield %8, %7
          }
          yield %s.1
        }
    """)


def test_return_in_a_loop_is_a_flag_and_a_result():
    text = """
        int f(int n)
        {
            for (int i = 0; i < n; i++)
                if (i == 5)
                    return i;
            return n;
        }
    """
    assert printed(text) == lines("""
        func @f(no_diff %n: i32) -> (no_diff i32) {
          %0 = const false : bool
          %i = const 0 : i32
          %1, %i.1, %i.2 = while %0, %i, %i : bool, i32, i32 (%2: bool, %i.3: i32, %i.4: i32) {
            %3 = not %2
            %4 = less %i.4, %n
            %5 = and %3, %4
            yield %5
          } (%6: bool, %i.5: i32, %i.6: i32) {
            %7 = const 5 : i32
            %8 = equal %i.6, %7
            %9 = if %8 : i32 {
              yield %i.6
            } {
              yield %i.5
            }
            %10 = if %8 : i32 {
              yield %i.6
            } {
              %11 = const 1 : i32
              %12 = add %i.6, %11
              yield %12
            }
            yield %8, %9, %10
          }
          %13 = if %1 : i32 {
            yield %i.1
          } {
            yield %n
          }
          yield %13
        }
    """)


def test_do_begins_with_a_true_condition():
    text = """
        int f(int n)
        {
            int i = 0;
            do
                i++;
            while (i < n);
            return i;
        }
    """
    assert printed(text) == lines("""
        func @f(no_diff %n: i32) -> (no_diff i32) {
          %i = const 0 : i32
          %0 = const true : bool
          %1, %i.1 = while %0, %i : bool, i32 (%2: bool, %i.2: i32) {
            yield %2
          } (%3: bool, %i.3: i32) {
            %4 = const 1 : i32
            %5 = add %i.3, %4
            %6 = less %5, %n
            yield %6, %5
          }
          yield %i.1
        }
    """)


def test_a_label_that_leaves_two_loops():
    text = """
        int f(int n)
        {
            int s = 0;
            outer: while (s < 100)
                while (true)
                {
                    s += n;
                    if (s > 7)
                        break outer;
                }
            return s;
        }
    """
    assert printed(text) == lines("""
        func @f(no_diff %n: i32) -> (no_diff i32) {
          %0 = const false : bool
          %s = const 0 : i32
          %s.1, %1 = while %s, %0 : i32, bool (%s.2: i32, %2: bool) {
            %3 = not %2
            %4 = const 100 : i32
            %5 = less %s.2, %4
            %6 = and %3, %5
            yield %6
          } (%s.3: i32, %7: bool) {
            %s.4, %8 = while %s.3, %0 : i32, bool (%s.5: i32, %9: bool) {
              %10 = not %9
              yield %10
            } (%s.6: i32, %11: bool) {
              %12 = add %s.6, %n
              %13 = const 7 : i32
              %14 = less %13, %12
              yield %12, %14
            }
            yield %s.4, %8
          }
          yield %s.1
        }
    """)


def test_a_switch_whose_cases_end():
    text = """
        int f(int x)
        {
            switch (x)
            {
            case 1: return 5;
            case 2: case 3: return 6;
            default: return 7;
            }
        }
    """
    assert printed(text) == lines("""
        func @f(no_diff %x: i32) -> (no_diff i32) {
          %0 = const 1 : i32
          %1 = equal %x, %0
          %2 = const 2 : i32
          %3 = equal %x, %2
          %4 = const 3 : i32
          %5 = equal %x, %4
          %6 = or %3, %5
          %7 = if %1 : i32 {
            %8 = const 5 : i32
            yield %8
          } {
            %9 = if %6 : i32 {
              %10 = const 6 : i32
              yield %10
            } {
              %11 = const 7 : i32
              yield %11
            }
            yield %9
          }
          yield %7
        }
    """)


def test_falling_through_remembers_that_a_case_was_entered():
    text = """
        int f(int x)
        {
            int s = 0;
            switch (x)
            {
            case 1: s = 1;
            case 2: s += 2; break;
            default: s = 9;
            }
            return s;
        }
    """
    assert printed(text) == lines("""
        func @f(no_diff %x: i32) -> (no_diff i32) {
          %s = const 0 : i32
          %0 = const 1 : i32
          %1 = equal %x, %0
          %2 = const 2 : i32
          %3 = equal %x, %2
          %4 = not %1
          %5 = not %3
          %6 = and %4, %5
          %7 = if %1 : i32 {
            yield %0
          } {
            yield %s
          }
          %8 = or %1, %3
          %9 = if %8 : i32 {
            %10 = add %7, %2
            yield %10
          } {
            yield %7
          }
          %11 = or %8, %6
          %12 = not %8
          %13 = and %11, %12
          %14 = if %13 : i32 {
            %15 = const 9 : i32
            yield %15
          } {
            yield %9
          }
          yield %14
        }
    """)


def test_defer_runs_at_the_end_of_its_block():
    text = """
        int f(int n)
        {
            int s = 1;
            {
                defer s *= 10;
                s += n;
            }
            return s + 2;
        }
    """
    assert printed(text) == lines("""
        func @f(no_diff %n: i32) -> (no_diff i32) {
          %s = const 1 : i32
          %0 = add %s, %n
          %1 = const 10 : i32
          %2 = mul %0, %1
          %3 = const 2 : i32
          %4 = add %2, %3
          yield %4
        }
    """)


def test_effects_in_a_condition_move_into_the_body():
    text = """
        int f(int n)
        {
            int i = 0, s = 0;
            while (i++ < n)
                s += i;
            return s;
        }
    """
    assert printed(text) == lines("""
        func @f(no_diff %n: i32) -> (no_diff i32) {
          %i = const 0 : i32
          %0 = const true : bool
          %1, %i.1, %i.2 = while %0, %i, %i : bool, i32, i32 (%2: bool, %i.3: i32, %s: i32) {
            yield %2
          } (%3: bool, %i.4: i32, %s.1: i32) {
            %4 = const 1 : i32
            %5 = add %i.4, %4
            %6 = less %i.4, %n
            %7 = if %6 : i32 {
              %8 = add %s.1, %5
              yield %8
            } {
              yield %s.1
            }
            yield %6, %5, %7
          }
          yield %i.2
        }
    """)


def test_a_compile_time_loop_is_written_out():
    text = """
        int f(int x)
        {
            $for (i in Range(1, 4))
                x = x * i;
            return x;
        }
    """
    assert printed(text) == lines("""
        func @f(no_diff %x: i32) -> (no_diff i32) {
          %0 = const 2 : i32
          %1 = mul %x, %0
          %2 = const 3 : i32
          %3 = mul %1, %2
          yield %3
        }
    """)


def test_handlers_that_do_not_ask_for_the_error_share_one_type():
    """So a program with several of them can be printed."""
    text = """
        int risky(int x) throws int
        {
            if (x > 2)
                throw x;
            return x;
        }
        int f(int x)
        {
            do { x += try risky(x); } catch { x = 0; }
            do { x += try risky(x); } catch { x = 1; }
            return x;
        }
    """
    assert print_program(lower(text)).count('struct "none" {}') == 1
