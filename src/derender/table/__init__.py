"""Tables by rule: ruling lines and gaps give rows, columns and spans; the honest baseline for a learned reader."""
