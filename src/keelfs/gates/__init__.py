"""Gates: each passes, refuses, observes or re-roots operations, and never invents an answer."""
