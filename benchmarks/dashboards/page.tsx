// One dashboard as Grafana's own panel components draw it, from a session's answers (answers.json).
// Their data come by Grafana's own transformations, display processors, units and colours. What a
// Grafana server adds (loading the file, menus, variables) is not here.
import React from 'react';
import { createRoot } from 'react-dom/client';
import {
  createTheme, EventBusSrv, FieldColorModeId, FieldType, getDisplayProcessor, getFieldDisplayValues,
  reduceField, standardTransformers, standardTransformersRegistry, ThemeContext, toDataFrame,
  transformDataFrame, dateTime, VizOrientation,
} from '@grafana/data';
import {
  BarGauge, BigValue, GlobalStyles, PanelChrome, PanelContextProvider, Table, TimeSeries, VizRepeater,
} from '@grafana/ui';
import '@fontsource/inter/400.css';
import '@fontsource/inter/500.css';
import told from './answers.json';

const name = BOARD;
const { board, answers, keeps, from, to, tag } = told[name];
const theme = createTheme({ colors: { mode: 'dark' } });
const timeZone = 'browser';
const timeRange = { from: dateTime(1000 * from), to: dateTime(1000 * to), raw: { from: '', to: '' } };
const { mergeTransformer, organizeFieldsTransformer } = standardTransformers;
standardTransformersRegistry.setInit(() => [mergeTransformer, organizeFieldsTransformer].map((each) => (
  { id: each.id, name: each.name, transformation: each })));

const UNIT = 38; // pixels of a row of the grid, its gap included
const GAP = 8;
const WIDTH = 1480;

function label(target, metric) {
  return (target.legendFormat ?? '').replace(/{{\s*(\w+)\s*}}/g, (_, key) => metric[key] ?? '');
}

/** As Grafana's Prometheus data source makes frames of an answer. */
function frames(panel) {
  return panel.targets.flatMap((target) => {
    const { type, result } = answers[`${panel.id} ${target.refId}`];
    if (target.format === 'table') {
      const keys = [...new Set(result.flatMap((each) => Object.keys(each.metric)))];
      const text = (key) => result.map((each) => each.metric[key]);
      return [toDataFrame({ refId: target.refId, fields: [
        { name: 'Time', type: FieldType.time, values: result.map((each) => 1000 * each.value[0]) },
        ...keys.map((key) => ({ name: key, type: FieldType.string, values: text(key) })),
        { name: `Value #${target.refId}`, type: FieldType.number, values: result.map((each) => +each.value[1]) },
      ] })];
    }
    return result.map((each) => {
      const points = type === 'matrix' ? each.values : [each.value];
      const shown = label(target, each.metric);
      return toDataFrame({ refId: target.refId, name: shown, fields: [
        { name: 'Time', type: FieldType.time, values: points.map((point) => 1000 * point[0]) },
        { name: shown || 'Value', type: FieldType.number, values: points.map((point) => +point[1]),
          config: { displayNameFromDS: shown } },
      ] });
    });
  });
}

const TIME_SERIES = { drawStyle: 'line', lineWidth: 1, fillOpacity: 0, showPoints: 'auto', axisPlacement: 'auto',
  spanNulls: false, stacking: { mode: 'none', group: 'A' }, scaleDistribution: { type: 'linear' },
  hideFrom: { tooltip: false, legend: false, viz: false }, thresholdsStyle: { mode: 'off' } };

/** The panel's own field settings, its overrides by name, and a display processor. */
function dressed(panel, found) {
  const { defaults = {}, overrides = [] } = panel.fieldConfig ?? {};
  let series = 0;
  for (const frame of found) {
    for (const field of frame.fields) {
      const config = structuredClone(defaults);
      if (panel.type === 'timeseries') config.custom = { ...TIME_SERIES, ...config.custom };
      for (const { matcher, properties } of overrides) {
        if (matcher.options !== (field.config.displayName ?? field.config.displayNameFromDS ?? field.name)) continue;
        for (const { id, value } of properties) {
          if (id.startsWith('custom.')) config.custom = { ...config.custom, [id.slice(7)]: value };
          else config[id] = value;
        }
      }
      if (field.type === FieldType.time) delete config.unit;
      config.color ??= { mode: FieldColorModeId.Thresholds };
      config.thresholds ??= { mode: 'absolute', steps: [{ value: -Infinity, color: 'green' }] };
      config.thresholds.steps = config.thresholds.steps.map((step) => ({ ...step, value: step.value ?? -Infinity }));
      if (panel.type === 'bargauge') config.max ??= most(found);
      field.config = { ...field.config, ...config };
      field.state = { ...field.state, seriesIndex: field.type === FieldType.number ? series++ : undefined };
      field.display = getDisplayProcessor({ field, theme, timeZone });
    }
  }
  return found;
}

/** The largest value of all frames: where a bar ends, as in Grafana. */
function most(found) {
  return Math.max(...found.flatMap((frame) => frame.fields.filter((field) => field.type === FieldType.number)
    .flatMap((field) => field.values)));
}

function shownValues(panel, data) {
  return getFieldDisplayValues({ fieldConfig: { defaults: {}, overrides: [] }, data, theme, timeZone,
    reduceOptions: { calcs: ['lastNotNull'], values: false }, replaceVariables: (text) => text, sparkline: false });
}

function withLegend(found) {
  for (const frame of found) {
    for (const field of frame.fields) {
      if (field.type === FieldType.number) field.state.calcs = reduceField({ field, reducers: ['lastNotNull'] });
    }
  }
  return found;
}

/** A green line at each keep, as the annotation of the dashboard asks for. */
function markKeeps(builder) {
  builder.addHook('draw', (plot) => {
    plot.ctx.save();
    plot.ctx.strokeStyle = theme.visualization.getColorByName('green');
    plot.ctx.setLineDash([4, 4]);
    for (const keep of keeps) {
      const x = Math.round(plot.valToPos(1000 * keep, 'x', true));
      plot.ctx.beginPath();
      plot.ctx.moveTo(x, plot.bbox.top);
      plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
      plot.ctx.stroke();
    }
    plot.ctx.restore();
  });
}

function Drawn({ panel, width, height }) {
  const [data, setData] = React.useState(null);
  React.useEffect(() => {
    transformDataFrame(panel.transformations ?? [], frames(panel)).subscribe((found) => setData(dressed(panel, found)));
  }, []);
  if (!data) return null;
  if (panel.type === 'timeseries') {
    let marked = false;
    return <TimeSeries frames={withLegend(data)} structureRev={1} timeRange={timeRange} timeZone={timeZone}
      width={width} height={height} legend={panel.options.legend} options={panel.options}>
      {(builder) => { if (!marked) { marked = true; markKeeps(builder); } return null; }}
    </TimeSeries>;
  }
  if (panel.type === 'table') return <Table data={data[0]} width={width} height={height} />;
  if (panel.type === 'stat' || panel.type === 'bargauge') {
    const bars = panel.type === 'bargauge';
    return <VizRepeater width={width} height={height} source={data} renderCounter={0} autoGrid
      orientation={bars ? VizOrientation.Horizontal : VizOrientation.Auto} itemSpacing={bars ? 6 : 8}
      minVizHeight={bars ? 16 : 1} minVizWidth={8}
      getAlignmentFactors={(values) => ({ title: values.map((each) => each.display.title ?? '').sort((a, b) => b.length - a.length)[0], text: values.map((each) => each.display.text).sort((a, b) => b.length - a.length)[0] })}
      getValues={() => shownValues(panel, data)}
      renderValue={({ value, width, height, alignmentFactors, count }) => bars
        ? <BarGauge value={value.display} field={value.field} display={value.view?.getFieldDisplayProcessor(value.colIndex)}
            width={width} height={height} theme={theme} orientation={VizOrientation.Horizontal} alignmentFactors={alignmentFactors}
            displayMode={panel.options.displayMode} text={panel.options.text} valueDisplayMode={panel.options.valueMode} showUnfilled
            itemSpacing={6} lcdCellWidth={8} />
        : <BigValue value={value.display} count={count} width={width} height={height} theme={theme}
            colorMode={panel.options.colorMode} graphMode="none" text={panel.options.text} textMode={panel.options.textMode} alignmentFactors={alignmentFactors} />} />;
  }
  return <p style={{ color: theme.colors.text.secondary, padding: 16 }}>
    {panel.type}: Grafana draws it in its server only</p>;
}

function Board() {
  const context = { eventsScope: 'x', eventBus: new EventBusSrv(), canAddAnnotations: () => false };
  return <ThemeContext.Provider value={theme}><GlobalStyles />
    <PanelContextProvider value={context}>
      <h3 style={{ margin: '10px 12px', color: theme.colors.text.primary }}>{board.title}
        <small style={{ color: theme.colors.text.secondary, marginLeft: 16 }}>session {tag}</small></h3>
      <div style={{ position: 'relative' }}>{board.panels.map((panel) => {
        const { x, y, w, h } = panel.gridPos;
        const width = (w * WIDTH) / 24 - GAP, height = h * UNIT - GAP;
        return <div key={panel.id} style={{ position: 'absolute', left: GAP + (x * WIDTH) / 24, top: y * UNIT, width, height }}>
          <PanelChrome title={panel.title} width={width} height={height}>
            {(w, h) => <Drawn panel={panel} width={w} height={h} />}
          </PanelChrome></div>;
      })}</div>
    </PanelContextProvider></ThemeContext.Provider>;
}

document.body.style.background = theme.colors.background.canvas;
createRoot(document.getElementById('root')).render(<Board />);
