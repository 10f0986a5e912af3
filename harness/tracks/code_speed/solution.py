"""
Count the pairs of points that are close to each other. This is the file to improve.

    python measure.py      # measures it: median_ms, lower is better

Plain on purpose: points go into square cells, each point is held against all points of the nine
cells around it. The inputs, the gate and the clock are in measure.py, which is frozen.
"""
import math

# -----------------------------------------------------------------------------
# What can be tuned without new code; every value gives the right answer

CELLS      = 8       # cells a side: 2 .. 50
HALF       = False   # look at each pair of points once instead of twice
SQUARES    = False   # compare squared distances, without the root
LAYOUT     = "dict"  # dict or list: how cells are found

# -----------------------------------------------------------------------------


def count_pairs(xs, ys, side, radius):
    """
    xs, ys:  lists of ints, 0 <= coordinate < side; point i is (xs[i], ys[i])
    Returns how many pairs i < j are at most radius apart.
    """
    cells = max(1, min(CELLS, side // radius))          # a cell is never smaller than radius
    grid = make_grid(xs, ys, side, cells)
    total = 0
    for cx in range(cells):
        for cy in range(cells):
            here = look_up(grid, cx, cy, cells)
            if not here:
                continue
            for dx, dy in NEIGHBOURS[4:] if HALF else NEIGHBOURS:
                there = look_up(grid, cx + dx, cy + dy, cells)
                total += count_between(here, there, radius, HALF and (dx, dy) == (0, 0))
    return total if HALF else (total - len(xs)) // 2    # each pair twice, each point with itself


NEIGHBOURS = [(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]   # the fifth is (0, 0)


def make_grid(xs, ys, side, cells):
    """The points of each cell."""
    if LAYOUT == "list":
        grid = [[] for _ in range(cells * cells)]
        for x, y in zip(xs, ys, strict=True):
            grid[x * cells // side * cells + y * cells // side].append((x, y))
        return grid
    grid = {}
    for x, y in zip(xs, ys, strict=True):
        grid.setdefault((x * cells // side, y * cells // side), []).append((x, y))
    return grid


def look_up(grid, cx, cy, cells):
    if LAYOUT == "list":
        return grid[cx * cells + cy] if 0 <= cx < cells and 0 <= cy < cells else ()
    return grid.get((cx, cy), ())


def count_between(here, there, radius, same):
    """Pairs of one point here and one there; in the same cell each pair once if `same`."""
    total = 0
    for i, (x, y) in enumerate(here):
        for ox, oy in there[i + 1:] if same else there:
            if SQUARES:
                total += (x - ox) * (x - ox) + (y - oy) * (y - oy) <= radius * radius
            else:
                total += math.hypot(x - ox, y - oy) <= radius
    return total
