"""From code to code: builders of ops, walks that rebuild functions, arithmetic on whole aggregates."""
