"""Panels in the product's own style: a title, what it means, a unit, and queries with their legend.

Each maker returns a builder of Grafana's SDK, so that whatever it can do may be said after it:
`lines(...).min(0)`. `$session` is the session that is looked at, `$datasource` the Prometheus.
"""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.models import common as shapes
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    GridPos,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
GOOD, WARN, BAD, PLAIN = "green", "orange", "red", "text"

Query = tuple[str, str]  #: PromQL, and how its series are called


def levels(first: str, *steps: tuple[float, str]) -> Any:
    """Colours by value: *first* up to the first step, and so on."""
    named = [Threshold(value=None, color=first), *(Threshold(v, c) for v, c in steps)]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(named)


def words(told: dict[str, tuple[str, str]]) -> ValueMap:
    """Values that are shown as a word in a colour."""
    return ValueMap(
        options={
            value: ValueMappingResult(text=text, color=color, index=index)
            for index, (value, (text, color)) in enumerate(told.items())
        }
    )


def ask(queries: tuple[Query, ...], *, now: bool = False, as_table: bool = False) -> list[Any]:
    """Queries of one panel: over the whole range, or only *now*."""
    asked = []
    for (expr, legend), ref in zip(queries, "ABCDEFGH", strict=False):
        query = prometheus.Dataquery().expr(expr).legend_format(legend).ref_id(ref)
        query = query.datasource(SOURCE)
        query = query.instant() if now else query.range()
        asked.append(query.format(PromQueryFormat.TABLE) if as_table else query)
    return asked


def number(
    title: str, says: str, unit: str, *queries: Query, colors: Any = None, now: bool = True
) -> Any:
    """One big number: as it is now, or the last one of the range."""
    last = common.ReduceDataOptions().calcs(["lastNotNull"])
    panel = stat.Panel().title(title).description(says).datasource(SOURCE).unit(unit)
    panel = panel.targets(ask(queries, now=now)).reduce_options(last)
    panel = panel.graph_mode(shapes.BigValueGraphMode.NONE).no_value("nothing runs")
    panel = panel.thresholds(colors or levels(PLAIN))
    panel = panel.text(common.VizTextDisplayOptions().title_size(16).value_size(34))
    return panel.color_mode(shapes.BigValueColorMode.VALUE)


def lines(title: str, says: str, unit: str, *queries: Query) -> Any:
    """Series over time. The legend tells the last value."""
    legend = common.VizLegendOptions().display_mode(shapes.LegendDisplayMode.LIST)
    legend = legend.placement(shapes.LegendPlacement.BOTTOM).show_legend(True)
    panel = timeseries.Panel().title(title).description(says).datasource(SOURCE).unit(unit)
    panel = panel.targets(ask(queries)).legend(legend.calcs(["lastNotNull"]))
    panel = panel.color_scheme(dashboard.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC))
    tooltip = common.VizTooltipOptions().mode(shapes.TooltipDisplayMode.MULTI)
    return (
        panel.line_width(2)
        .fill_opacity(0)
        .tooltip(tooltip.sort(shapes.SortOrder.DESCENDING))
        .show_points(shapes.VisibilityMode.NEVER)
    )


def steps(panel: Any) -> Any:
    """A value stands until the next one."""
    return panel.line_interpolation(shapes.LineInterpolation.STEP_AFTER)


def bars(title: str, says: str, query: Query, colors: Any, *, now: bool = True) -> Any:
    """One bar a series: as it is now, or the last one of the range."""
    last = common.ReduceDataOptions().calcs(["lastNotNull"])
    panel = bargauge.Panel().title(title).description(says).datasource(SOURCE).unit("short")
    panel = panel.targets(ask((query,), now=now)).reduce_options(last).thresholds(colors)
    panel = panel.display_mode(shapes.BarGaugeDisplayMode.BASIC).min(0).decimals(0)
    panel = panel.text(common.VizTextDisplayOptions().title_size(16).value_size(20))
    return panel.orientation(shapes.VizOrientation.HORIZONTAL)


def dash(title: str, says: str, other: str, *, every: bool) -> Any:
    """An empty dashboard with its variables; *every*: all sessions may be looked at together."""
    session = (
        dashboard.QueryVariable("session")
        .label("Session")
        .datasource(SOURCE)
        .description("The sessions that Prometheus knows in this range, by tag.")
        .query(
            {
                "query": "query_result(max by (session, tag) (max_over_time(overnight_session_info[$__range])))",
                "refId": "sessions",
            }
        )
        .regex('/session="(?<value>[^"]+)".*tag="(?<text>[^"]+)"/')
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_DESC)
    )
    if every:
        session = session.multi(True).include_all(True).all_value(".+")
    link = dashboard.DashboardLink(other).type(DashboardLinkType.LINK).include_vars(False)
    link = link.url(f"/d/overnight-{other.lower()}").keep_time(True).icon("dashboard")
    return (
        dashboard.Dashboard(title)
        .uid(f"overnight-{title.lower()}")
        .description(says)
        .tags(["overnight"])
        .time("now-12h", "now")
        .refresh("30s")
        .timezone("browser")
        .editable()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(link)
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
        )
        .with_variable(session)
    )


def laid_out(board: Any, *rows: tuple[int, list[tuple[int, Any]]]) -> Any:
    """Panels from left to right: (height, [(width, panel)]). A dashboard is 24 wide."""
    y = number = 0
    for height, panels in rows:
        x = 0
        for width, panel in panels:
            number += 1
            board = board.with_panel(
                panel.id(number).grid_pos(GridPos(h=height, w=width, x=x, y=y))
            )
            x += width
        y += height
    return board


def painted(panel: Any, series: str, color: str, more: dict[str, Any] | None = None) -> Any:
    """One series in a colour of its own."""
    told = {"color": {"mode": "fixed", "fixedColor": color}, **(more or {})}
    return panel.override_by_name(series, [DynamicConfigValue(k, v) for k, v in told.items()])


def busy(which: str, legend: str) -> Any:
    """Share of time in which an attempt ran; stands on both dashboards."""
    says = "Share of time in which an attempt ran. Under 80 % for long: look at the queue."
    idle = f"avg by (tag, slot) (rate(overnight_runner_idle_seconds_total{{{which}}}[$__rate_interval]))"
    panel = lines("Device use", says, "percentunit", (f"clamp(1 - {idle}, 0, 1)", legend))
    return panel.min(0).max(1).fill_opacity(10)


def over_time(title: str, says: str, query: Query, told: ValueMap, colors: Any) -> Any:
    """Words over time: one bar a series."""
    panel = statetimeline.Panel().title(title).description(says).datasource(SOURCE)
    panel = panel.targets(ask((query,))).show_value(shapes.VisibilityMode.NEVER)
    by_value = dashboard.FieldColor().mode(FieldColorModeId.THRESHOLDS)
    return panel.mappings([told]).color_scheme(by_value).thresholds(colors)


def grid(title: str, says: str, labels: tuple[str, ...], columns: dict[str, Query]) -> Any:
    """A table of what is so now: first the labels, then a column a query; one named "" is hidden."""
    names = {f"Value #{ref}": name for ref, name in zip("ABCDEFGH", columns, strict=False)}
    hidden = {"Time": True, **{value: True for value, name in names.items() if not name}}
    order = {name: place for place, name in enumerate((*labels, *names))}
    arranged = {
        "excludeByName": hidden,
        "indexByName": order,
        "renameByName": {value: name for value, name in names.items() if name},
    }
    panel = table.Panel().title(title).description(says).datasource(SOURCE)
    panel = panel.targets(ask(tuple(columns.values()), now=True, as_table=True))
    panel = panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    return panel.with_transformation(DataTransformerConfig(id_val="organize", options=arranged))
