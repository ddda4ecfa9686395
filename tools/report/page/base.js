// What all panels share: the data of a report made handy, elements, figures as text, colours.

/// An element with attributes, handlers (`on...`) and children. Texts are never parsed as HTML.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const format = {
  bytes(value) {
    if (!Number.isFinite(value)) return '';
    for (const [unit, size] of [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]])
      if (value >= size) return `${(value / size).toFixed(value >= 100 * size ? 0 : 1)} ${unit}`;
    return `${value} B`;
  },
  time(us) {
    if (!Number.isFinite(us)) return '';
    if (us >= 1e6) return `${(us / 1e6).toFixed(2)} s`;
    if (us >= 1e3) return `${(us / 1e3).toFixed(2)} ms`;
    return `${us.toFixed(us < 10 ? 2 : 1)} µs`;
  },
  count(value) { return Number.isFinite(value) ? value.toLocaleString('en') : ''; },
  large(value) {  // 1.5 G, for operations and rates
    if (!Number.isFinite(value)) return '';
    for (const [unit, size] of [['T', 1e12], ['G', 1e9], ['M', 1e6], ['k', 1e3]])
      if (value >= size) return `${(value / size).toPrecision(3)} ${unit}`;
    return `${value}`;
  },
  error(value) { return value === undefined ? '' : Number.isFinite(value) ? value.toExponential(2) : '∞'; },
  percent(share) { return Number.isFinite(share) ? `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %` : ''; },
};

/// The part of a long name that tells most: its end.
function shorten(name, most) {
  return name.length <= most ? name : '…' + name.slice(name.length - most + 1);
}

/// "encoder/layer.0/MatMul" is of the block "encoder/layer.0": up to the first number that is
/// a part of its own, if something follows. Empty: of none.
function block_of(name) {
  const parts = name.split(/([/.])/);
  for (let i = 0; i + 2 < parts.length; i += 2)
    if (/^([A-Za-z]*[a-z_])?\d+$/.test(parts[i])) return parts.slice(0, i + 1).join('');
  return '';
}

class Report {
  constructor(raw) {
    this.raw = raw;
    this.summary = raw.summary;
    this.nodes = raw.graph.nodes.map((node, index) => ({...node, index, steps: []}));
    this.edges = raw.graph.edges;
    this.steps = raw.step_list.map((step, index) => ({
      ...step, index, nodes: [], block: '',
      read: Number(step.bytes_read), written: Number(step.bytes_written), operations: Number(step.flops),
      time: null, variants: [], decisions: [],
    }));
    this.kinds = [...new Set(this.steps.map(kind_of))];
    this.profile = raw.profile;
    this.compare = raw.compare;
    this.link_times();
    this.link_nodes();
    this.link_kernels();
    this.link_decisions();
    this.find_blocks();
    this.step_edges = this.find_step_edges();
  }

  link_times() {
    if (!this.profile) return;
    const times = new Map(this.profile.steps.map((step) => [step.name, step]));
    for (const step of this.steps) step.time = times.get(step.name) || null;
  }

  /// Which kernels compute something of a node.
  link_nodes() {
    this.steps_of_origin = new Map();
    for (const step of this.steps)
      for (const origin of step.origins) {
        if (!this.steps_of_origin.has(origin)) this.steps_of_origin.set(origin, []);
        this.steps_of_origin.get(origin).push(step.index);
      }
    this.node_of_name = new Map();
    for (const node of this.nodes) {
      const origins = node.origins || [node.name];
      if (node.step !== undefined) node.steps = node.step < 0 ? [] : [node.step];
      else node.steps = [...new Set(origins.flatMap((origin) => this.steps_of_origin.get(origin) || []))];
      for (const step of node.steps) this.steps[step].nodes.push(node.index);
      for (const origin of origins)
        if (!this.node_of_name.has(origin)) this.node_of_name.set(origin, node.index);
      node.block = block_of(node.name);
    }
  }

  link_kernels() {
    const by_name = new Map(this.steps.map((step) => [step.name, step]));
    for (const kernel of this.raw.kernels || []) by_name.get(kernel.step)?.variants.push(kernel);
    for (const region of this.raw.errors || []) {
      const step = by_name.get(region.region);
      if (step) step.error = region;
    }
  }

  /// Decisions are about pairs of nodes: those of a kernel are about nodes that it computes.
  link_decisions() {
    this.decisions = this.raw.decisions || [];
    this.decisions.forEach((decision, index) => {
      const steps = new Set();
      for (const origin of [...decision.from, ...decision.to])
        for (const step of this.steps_of_origin.get(origin) || []) steps.add(step);
      for (const step of steps) this.steps[step].decisions.push(index);
    });
  }

  /// Blocks of which there are several alike but for the number.
  find_blocks() {
    const counts = new Map();
    const pattern = (block) => block.replace(/\d+(?!.*\d)/, '#');
    for (const block of new Set(this.nodes.map((node) => node.block)))
      if (block) counts.set(pattern(block), (counts.get(pattern(block)) || 0) + 1);
    const repeats = (block) => block && counts.get(pattern(block)) > 1;
    this.has_blocks = false;
    for (const node of this.nodes) if (!repeats(node.block)) node.block = '';
    for (const step of this.steps) {
      step.block = this.main_block(step, repeats);
      if (step.block) this.has_blocks = true;
    }
    // What equal nodes of all blocks share is of each of them: a node's own kernel is its block's.
    const rank = (node) => (a, b) =>
        (this.steps[b].block === node.block) - (this.steps[a].block === node.block) ||
        this.steps[a].origins.length - this.steps[b].origins.length;
    for (const node of this.nodes) if (node.steps.length > 1) node.steps.sort(rank(node));
  }

  /// The block that has most of what a kernel computes. A node that many kernels compute something
  /// of says little about each. Empty: none has half of it.
  main_block(step, repeats) {
    const weights = new Map();
    let total = 0;
    for (const origin of step.origins) {
      const block = block_of(origin), weight = 1 / this.steps_of_origin.get(origin).length;
      total += weight;
      if (repeats(block)) weights.set(block, (weights.get(block) || 0) + weight);
    }
    const [best, weight] = [...weights].reduce((a, b) => (b[1] > a[1] ? b : a), ['', 0]);
    return 2 * weight >= total ? best : '';
  }

  /// From who wrote a buffer last to who reads it.
  find_step_edges() {
    const writer = new Map(), edges = [];
    for (const step of this.steps) {
      const sources = new Set();
      for (const buffer of step.reads || [])
        if (writer.has(buffer)) sources.add(writer.get(buffer));
      for (const source of sources) if (source !== step.index) edges.push([source, step.index]);
      for (const buffer of step.writes || []) writer.set(buffer, step.index);
    }
    return edges;
  }

  source_of(step) {
    const names = step.variants.map((variant) => variant.function);
    return (this.raw.sources || []).filter(
        ({source}) => names.some((name) => source.includes(`${name}(`)));
  }
}

/// What a step does, in a word: of its region, else of its step.
function kind_of(step) {
  return step.region || step.kind.replace(/Step$/, '').toLowerCase();
}

/// Of a few kinds the hue is fixed, so that reports look alike; others take what is left in between.
const kHues = {matmul: 215, gemm: 215, conv: 265, attention: 325, reduction: 30, pointwise: 140, copy: 190};
const kOtherHues = [60, 0, 95, 240, 295, 165, 350, 80];

/// The colour of a kind; null: of what no kernel computes. `is_other` is a little apart, for neighbours.
function colour_of_kind(report, kind, is_strong = false, is_other = false) {
  const is_dark = document.documentElement.dataset.theme === 'dark';
  const light = is_dark ? (is_strong ? 62 : 32) : (is_strong ? 45 : 84);
  if (kind === null) return is_dark ? 'hsl(215 8% 26%)' : 'hsl(215 12% 92%)';
  const others = report.kinds.filter((each) => !(each in kHues));
  const hue = kHues[kind] ?? kOtherHues[others.indexOf(kind) % kOtherHues.length];
  return `hsl(${hue} ${is_strong ? 60 : 52}% ${light + (is_other ? 7 : 0)}%)`;
}

/// The colour of a step of the report that is shown. Steps that follow each other differ in lightness.
function colour_of(step, is_strong = false) {
  const {report} = page;
  return colour_of_kind(report, step < 0 ? null : kind_of(report.steps[step]), is_strong, is_strong && step % 2 === 1);
}

function theme_colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
