// The tabs. Each panel: an id, a title, whether a report has it, and what draws it. To add one, add
// a row to `panels`.

/// A table whose columns sort by a click. `columns`: [title, value of a row, text of the value].
/// A row whose `step` is known selects that kernel.
function sortable(rows, columns, step_of) {
  const body = make('tbody');
  let by = -1, direction = 1;
  const is_number = columns.map(([, value]) => rows.length > 0 && rows.every((row) => ['number', 'undefined'].includes(typeof value(row))));
  const is_short = columns.map(([, value]) => rows.every((row) => String(value(row) ?? '').length <= 24));
  const fill = () => body.replaceChildren(...rows.map((row) => {
    const step = step_of?.(row);
    return make('tr', {
      class: page.selection?.step === step && step !== undefined ? 'chosen' : null, 'data-step': step,
      onclick: step === undefined ? undefined : () => page.select({step}),
    }, columns.map(([title, value, text], i) => {
      const shown = value(row);
      return make('td', {class: is_number[i] ? 'number' : i === 0 ? 'name' : is_short[i] ? 'short' : 'long'},
                  shown === undefined ? '' : text ? text(shown, row) : `${shown}`);
    }));
  }));
  const sort = (i) => {
    direction = by === i ? -direction : (is_number[i] ? -1 : 1);
    by = i;
    const value = columns[i][1];
    rows = [...rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return direction * (is_number[i] ? (x ?? -1) - (y ?? -1) : String(x).localeCompare(String(y)));
    });
    fill();
  };
  fill();
  return make('table', {class: 'list'},
              make('thead', {}, make('tr', {}, columns.map(([title], i) => make('th', {class: is_number[i] ? 'number' : null, onclick: () => sort(i), title: 'Sort'}, title)))),
              body);
}

function card(value, what) { return make('div', {class: 'card'}, make('b', {}, value), make('span', {}, what)); }
function note(...text) { return make('p', {class: 'note'}, ...text); }

function draw_overview(report) {
  const {summary, profile, raw} = report;
  const totals = raw.totals || {};
  const list = (bindings) => make('ul', {class: 'plain'}, (bindings || []).map(({name, type}) => make('li', {}, `${name}: ${type}`)));
  return [
    make('div', {class: 'cards'},
         card(format.count(summary.nodes_imported), 'ONNX nodes'),
         card(format.count(report.steps.length), 'steps'),
         card(format.count(totals.launches), 'launches'),
         card(format.bytes((totals.bytes_read || 0) + (totals.bytes_written || 0)), 'moved'),
         card(`${format.large(totals.flops)}FLOP`, 'computed'),
         card(format.bytes(summary.weight_bytes), 'weights'),
         card(format.bytes(raw.arena_bytes), `arena; ${format.bytes(raw.arena_bytes_without_reuse)} without reuse`),
         profile ? card(format.time(profile.whole_us), 'a run') : null),
    make('h2', {}, 'The plan'),
    details.rows([
      ['target', [summary.target, ...(summary.architectures || [])].join(', ')],
      ['sizes are for', summary.shapes],
      ['options', (summary.options || []).join(', ')],
      ['compiler', `sinter ${summary.compiler}`],
      ['model hash', summary.model_hash],
      ['plan', summary.plan_bytes ? format.bytes(summary.plan_bytes) : ''],
      ['measured errors', (summary.measured || []).map(({output, relative_error}) => `${output}: ${relative_error.toExponential(2)}`).join(', ')],
    ]),
    ...(summary.precision_notes || []).map((text) => note(text)),
    make('h2', {}, 'Inputs'), list(summary.inputs),
    make('h2', {}, 'Outputs'), list(summary.outputs),
    raw.passes ? draw_passes(raw.passes) : null,
  ];
}

/// Those that changed the graph; the others folded away. Older reports do not say, but for the number of nodes.
function draw_passes(passes) {
  const has_changed = (pass) => pass.changed ?? pass.nodes_before !== pass.nodes_after;
  const table = (rows) => sortable(rows, [
    ['pass', (pass) => pass.pass], ['ms', (pass) => pass.ms, (ms) => ms.toFixed(1)],
    ['nodes before', (pass) => pass.nodes_before], ['after', (pass) => pass.nodes_after]]);
  const idle = passes.filter((pass) => !has_changed(pass));
  return [
    make('h2', {}, 'Passes'), table(passes.filter(has_changed)),
    idle.length > 0 ? make('details', {id: 'idle-passes'}, make('summary', {}, `${idle.length} passes changed nothing`), table(idle)) : null,
  ];
}

function draw_steps(report) {
  const has_times = Boolean(report.profile);
  return [
    note(`In the order of the plan, for ${report.summary.shapes}. A click on a heading sorts, one on a row shows the kernel.`),
    sortable(report.steps, [
      ['step', (step) => step.name, (name, step) => make('span', {}, make('span', {class: 'chip', style: `background:${colour_of(step.index, true)}; margin-left:${14 * step.depth}px`}), name)],
      ['kind', (step) => step.region || step.kind],
      ['launches', (step) => step.launches, (launches, step) => `${launches}${step.runs}`],
      ['read', (step) => step.read, format.bytes],
      ['written', (step) => step.written, format.bytes],
      ['operations', (step) => step.operations, format.large],
      ...(has_times ? [
        ['time', (step) => step.time?.us, format.time],
        ['share', (step) => step.time ? step.time.us / report.profile.total_us : undefined, format.percent],
        ['bound', (step) => step.time?.bound || ''],
        ['of bound', (step) => step.time?.share_of_bound, format.percent]] : []),
      ...(report.raw.errors ? [
        ['error', (step) => step.error ? step.error.relative_error ?? Infinity : undefined, format.error],
        ['of allowed', (step) => step.error ? (step.error.relative_error ?? Infinity) / step.error.tolerance : undefined, format.percent]] : []),
      ['from', (step) => step.origins.join(', '), (text) => text.length > 160 ? `${text.slice(0, 159)}…` : text],
    ], (step) => step.index),
  ];
}

function draw_memory(report) {
  const {raw} = report;
  return [
    note(`The arena holds what steps hand to each other: ${format.bytes(raw.arena_bytes)}, where ${format.bytes(raw.arena_bytes_without_reuse)} would be needed if nothing were reused. ` +
         'A box reaches from the first to the last step that uses a value, at its place in the arena, in the colour of what the kernel that writes it does. The wheel zooms along the steps.'),
    charts.memory(report),
  ];
}

function draw_time(report) {
  const {profile, compare} = report;
  const parts = [];
  if (profile) {
    const machine = profile.machine, is_parallel = profile.steps.some((step) => step.stream > 0);
    parts.push(
        make('div', {class: 'cards'},
             card(format.time(profile.whole_us), 'the whole run'), card(format.time(profile.total_us), 'its steps one by one'),
             profile.overlap_us > 0 ? card(format.time(profile.overlap_us), 'overlap of steps') : card(format.time(profile.gaps_us), 'gaps'),
             card(format.time(profile.memory_bound_us), 'memory-bound'), card(format.time(profile.compute_bound_us), 'compute-bound'),
             card(format.time(profile.launch_bound_us), 'bound by launches'), card(format.count(profile.launches), 'launches')),
        make('h2', {}, 'Timeline'),
        note(`Steps in their order, each as long as it takes alone: ${profile.timing}. ${is_parallel ? 'Steps that do not need each other run on streams of their own, behind those that they wait for. ' : ''}The wheel zooms.`),
        charts.timeline(report),
        make('h2', {}, 'Roofline'),
        note(`${machine.name}: copies ${format.large(machine.copy_bytes_per_s)}B/s (measured); operations: ${machine.operations_from}. The larger a circle, the longer it takes. Steps that compute nothing are left out.`),
        charts.roofline(report));
  }
  if (compare) {
    parts.push(make('h2', {}, 'Fused against unfused'),
               note(`Compute time for ${compare.shapes} on ${compare.target}; bars are medians, lines reach from the 10th to the 90th percentile. Outputs agree within ${compare.fused_against_unfused_error.toExponential(1)}.`),
               charts.bars(Object.entries(compare.variants), 'compute_us'));
  }
  return parts;
}

function draw_quantization(report) {
  return [
    note('Errors are relative, in the 2-norm: of the weights, and of the layer’s output. A layer without bits keeps its floats.'),
    sortable(report.raw.layers, [
      ['layer', (layer) => layer.layer], ['n', (layer) => layer.n], ['k', (layer) => layer.k],
      ['bits', (layer) => layer.bits || undefined],
      ['weight error', (layer) => layer.bits ? layer.weight_error : undefined, (e) => e.toExponential(2)],
      ['output error', (layer) => layer.bits ? layer.output_error : undefined, (e) => e.toExponential(2)],
      ['before', (layer) => layer.bytes_before, format.bytes], ['after', (layer) => layer.bytes_after, format.bytes],
      ['why', (layer) => layer.kept || layer.wider],
    ]),
  ];
}

/// Steps of two reports are the same if they come from the same ONNX nodes and do the same.
function matched_steps(report, other) {
  const key = (step) => `${step.name.replace(/_\d+$/, '')}\n${step.origins.join('\n')}`;
  const waiting = new Map();
  for (const step of other.steps) {
    if (!waiting.has(key(step))) waiting.set(key(step), []);
    waiting.get(key(step)).push(step);
  }
  const pairs = report.steps.map((step) => ({here: step, there: waiting.get(key(step))?.shift()}));
  for (const rest of waiting.values()) for (const step of rest) pairs.push({there: step});
  return pairs;
}

function draw_difference(report, other) {
  const figures = [
    ['ONNX nodes', (r) => r.summary.nodes_imported, format.count],
    ['steps', (r) => r.steps.length, format.count],
    ['launches', (r) => r.raw.totals?.launches, format.count],
    ['read', (r) => r.raw.totals?.bytes_read, format.bytes],
    ['written', (r) => r.raw.totals?.bytes_written, format.bytes],
    ['operations', (r) => r.raw.totals?.flops, format.large],
    ['weights', (r) => r.summary.weight_bytes, format.bytes],
    ['plan', (r) => r.summary.plan_bytes || undefined, format.bytes],
    ['arena', (r) => r.raw.arena_bytes, format.bytes],
    ['whole run', (r) => r.profile?.whole_us, format.time],
    ['sum of steps', (r) => r.profile?.total_us, format.time],
    ['gaps', (r) => r.profile?.gaps_us, format.time],
  ].map(([what, of, text]) => ({what, text, here: of(report), there: of(other)})).filter(({here, there}) => here !== undefined || there !== undefined);
  const ratio = ({here, there}) => here > 0 && there > 0 ? here / there : undefined;
  const pairs = matched_steps(report, other);
  const alone = pairs.filter(({here, there}) => !here || !there).length;
  const has_times = Boolean(report.profile && other.profile);
  const value = (side, of) => (pair) => pair[side] ? of(pair[side]) : undefined;
  const moved = (step) => step.read + step.written;
  const weight = (pair) => {
    const of = has_times ? (step) => step.time?.us || 0 : moved;
    return Math.abs((pair.here ? of(pair.here) : 0) - (pair.there ? of(pair.there) : 0));
  };
  pairs.sort((a, b) => weight(b) - weight(a));
  const [here, there] = page.names;
  return [
    make('table', {id: 'figures'}, make('tr', {}, make('th'), make('th', {class: 'number'}, here), make('th', {class: 'number'}, there), make('th', {class: 'number'}, 'ratio')),
         figures.map((row) => make('tr', {}, make('th', {}, row.what),
             ...['here', 'there'].map((side) => make('td', {class: 'number'}, row[side] === undefined ? '' : row.text(row[side]))),
             make('td', {class: 'number'}, ratio(row) === undefined ? '' : `${ratio(row).toFixed(2)}×`)))),
    make('h2', {}, 'Steps'),
    note(`${pairs.length - alone} steps are in both (the same ONNX nodes and operators), ${alone} in one alone. ${has_times ? 'Those whose times differ most come first.' : 'Those whose bytes differ most come first.'}`),
    sortable(pairs, [
      ['step', (pair) => (pair.here || pair.there).name],
      ['in', (pair) => !pair.there ? `only ${here}` : !pair.here ? `only ${there}` : 'both'],
      [`bytes, ${here}`, value('here', moved), format.bytes], [`bytes, ${there}`, value('there', moved), format.bytes],
      ...(has_times ? [[`time, ${here}`, value('here', (step) => step.time?.us), format.time], [`time, ${there}`, value('there', (step) => step.time?.us), format.time]] : []),
      ['from', (pair) => (pair.here || pair.there).origins.join(', '), (text) => text.length > 120 ? `${text.slice(0, 119)}…` : text],
    ], (pair) => pair.here?.index),
  ];
}

const panels = [
  {id: 'overview', title: 'Overview', is_there: () => true, draw: draw_overview},
  {id: 'graph', title: 'Graph', is_there: () => true, draw: (report) => { graph_view.open(report); return null; }},
  {id: 'steps', title: 'Steps', is_there: () => true, draw: draw_steps},
  {id: 'time', title: 'Time', is_there: (report) => Boolean(report.profile || report.compare), draw: draw_time},
  {id: 'memory', title: 'Memory', is_there: () => true, draw: draw_memory},
  {id: 'quantization', title: 'Quantization', is_there: (report) => Boolean(report.raw.layers), draw: draw_quantization},
  {id: 'difference', title: 'Difference', is_there: () => page.reports.length > 1, draw: (report) => draw_difference(page.reports[0], page.reports[1])},
];
