"""What a run came to, as one typed value: computed once from facts, measures and spec, stored, and read by everyone."""
