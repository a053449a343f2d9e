"""A loop without gradients in one launch, prepared: its shapes (`plan`) and its rounding
(`emulation`). The kernel itself is not written; docs/gpu.md has the design.
"""
