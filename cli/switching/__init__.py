"""What `tenon takeover` and `tenon handback` do: each step of `tenon.migration.switch` on a cluster."""
