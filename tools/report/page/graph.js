// The graph on a canvas: ONNX nodes, kernels, or repeated blocks, in the colours of what kernels do.

const kNodeHeight = 36;

const graph_view = {
  mode: null,            // 'nodes', 'kernels' or 'blocks'
  expanded: new Set(),   // kernels ("step 3") and blocks that are opened
  items: [], edges: [], paths: [],
  transform: d3.zoomIdentity,
  found: [], found_at: -1,

  open(report) {
    if (this.report !== report) {
      this.report = report;
      this.expanded.clear();
      this.is_laid_out = false;
      this.mode = report.has_blocks && report.steps.length > 400 ? 'blocks' : 'kernels';
    }
    const mode = (name, label, hint, disabled) => make('button', {
      'aria-pressed': String(this.mode === name), title: hint, disabled, id: `mode-${name}`,
      onclick: () => { this.mode = name; this.expanded.clear(); this.is_laid_out = false; this.open(report); },
    }, label);
    this.search = make('input', {type: 'search', id: 'search', placeholder: 'Search nodes and kernels', 'aria-label': 'Search',
                                 oninput: () => this.find(), onkeydown: (event) => { if (event.key === 'Enter') this.find_next(); }});
    this.count = make('span', {class: 'note', id: 'count'});
    const with_kernel = report.nodes.filter((node) => node.steps.length > 0).length;
    page.view.className = 'whole';
    page.view.replaceChildren(
        make('div', {class: 'bar'},
             mode('nodes', `Before: ${format.count(report.nodes.length)} nodes`,
                  `Every ONNX node; ${format.count(with_kernel)} of them are computed by kernels, and have the colour of what their kernel does`),
             mode('kernels', `After: ${format.count(report.steps.length)} kernels`, 'Every kernel, library call and copy of the plan'),
             mode('blocks', 'Blocks', 'Repeated blocks, each as one', !report.has_blocks),
             make('button', {onclick: () => this.fit(), title: 'All of it'}, 'Fit'),
             make('button', {onclick: () => this.scale(1.5), 'aria-label': 'Larger'}, '+'),
             make('button', {onclick: () => this.scale(1 / 1.5), 'aria-label': 'Smaller'}, '−'),
             this.search, this.count,
             make('span', {class: 'note'}, 'click: what it is; double click: open or close')),
        this.legend = make('div', {class: 'bar', id: 'legend'}),
        make('div', {class: 'plot'}, this.canvas = make('canvas', {tabindex: 0, 'aria-label': 'Graph'})));
    this.zoom = d3.zoom().scaleExtent([0.002, 4]).on('zoom', () => { this.transform = d3.event.transform; this.redraw(); });
    d3.select(this.canvas).call(this.zoom).on('dblclick.zoom', null);
    this.canvas.addEventListener('click', (event) => this.click(event));
    this.canvas.addEventListener('dblclick', (event) => this.toggle(this.item_at(event)));
    this.canvas.addEventListener('mousemove', (event) => {
      const item = this.item_at(event);
      this.canvas.style.cursor = item ? 'pointer' : '';
      this.canvas.title = item ? `${item.label}\n${item.name}` : '';
    });
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    if (!this.is_laid_out) { this.lay_out(); this.start_place(); }
    else d3.select(this.canvas).call(this.zoom.transform, this.transform);
    this.reveal(page.selection);
    this.redraw();
  },

  /// The item that stands for a kernel or a node in what is collapsed and opened now; null: none.
  key_of_step(step) {
    if (this.mode === 'blocks' && step.block && !this.expanded.has(step.block)) return step.block;
    return this.expanded.has(`step ${step.index}`) ? null : `step ${step.index}`;
  },
  key_of_node(node) {
    if (this.mode === 'nodes') return `node ${node.index}`;
    if (node.steps.length === 0) return null;
    return this.key_of_step(this.report.steps[node.steps[0]]) || `node ${node.index}`;
  },

  lay_out() {
    const {report} = this, items = new Map();
    const add = (key, item) => {
      if (items.has(key)) return;
      const width = Math.min(260, Math.max(70, 7.4 * Math.max(item.label.length, shorten(item.name, 34).length * 0.86) + 18));
      items.set(key, {...item, key, width, height: kNodeHeight, index: items.size});
    };
    const add_step = (step) => {
      const key = this.key_of_step(step);
      if (key === null) return;
      if (key === step.block) add(key, {label: key.split('/').pop(), name: `${report.steps.filter((other) => other.block === key).length} kernels`, block: key, step: -1});
      else add(key, {label: step.region || step.kind.replace(/Step$/, ''), name: step.name, step: step.index});
    };
    if (this.mode === 'nodes') report.nodes.forEach((node) => this.add_node(add, node));
    else for (const step of report.steps) {
      if (this.key_of_step(step) === null)
        step.nodes.filter((i) => report.nodes[i].steps[0] === step.index).forEach((i) => this.add_node(add, report.nodes[i]));
      else add_step(step);
    }
    const edges = new Set();
    const connect = (a, b) => {
      const from = items.get(a), to = items.get(b);
      if (from && to && from !== to) edges.add(from.index * items.size + to.index);
    };
    for (const [a, b] of report.edges) {
      const from = report.nodes[a], to = report.nodes[b];
      const keys = [this.key_of_node(from), this.key_of_node(to)];
      // Between whole kernels the plan says what flows.
      if (this.mode === 'nodes' || keys.some((key) => key?.startsWith('node '))) connect(...keys);
    }
    if (this.mode !== 'nodes')
      for (const [a, b] of report.step_edges) connect(this.key_of_step(report.steps[a]), this.key_of_step(report.steps[b]));
    this.items = [...items.values()];
    this.by_key = items;
    this.edges = [...edges].map((code) => [Math.floor(code / items.size), code % items.size]);
    this.paths = layered_layout(this.items, this.edges);
    this.rows = new Map();
    for (const item of this.items) {
      if (!this.rows.has(item.y)) this.rows.set(item.y, []);
      this.rows.get(item.y).push(item);
    }
    this.is_laid_out = true;
    this.draw_legend();
    this.count.textContent = `${format.count(this.items.length)} boxes`;
  },
  /// The kind of what a box stands for: null for what no kernel computes, undefined for a block.
  kind_of_item(item) {
    if (item.block !== undefined) return undefined;
    return item.step < 0 ? null : kind_of(this.report.steps[item.step]);
  },
  /// What the colours mean, with how many boxes have each. A click marks these.
  draw_legend() {
    const counts = new Map();
    for (const item of this.items) {
      const kind = this.kind_of_item(item);
      if (kind !== undefined) counts.set(kind, (counts.get(kind) || 0) + 1);
    }
    const sorted = [...counts].sort((a, b) => (a[0] === null) - (b[0] === null) || b[1] - a[1]);
    this.legend.replaceChildren(...sorted.map(([kind, count]) => make('button', {
      class: 'legend', title: kind === null ? 'Computed while compiling, or only a change of how memory is read' : 'Mark them',
      onclick: () => this.mark_kind(kind),
    }, make('span', {class: 'chip', style: `background:${colour_of_kind(this.report, kind, kind !== null)}`}),
    `${kind === null ? 'no kernel' : kind} ${format.count(count)}`)));
  },
  mark_kind(kind) {
    const found = this.items.filter((item) => this.kind_of_item(item) === kind);
    const is_marked = found.length === this.found.length && found.every((item, i) => item === this.found[i]);
    this.found = is_marked ? [] : found;
    this.found_at = -1;
    this.redraw();
  },
  add_node(add, node) {
    add(`node ${node.index}`, {label: node.op || 'node', name: node.name, node: node.index, step: node.steps.length ? node.steps[0] : -1});
  },

  box() {
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const {x, y, width, height} of this.items) {
      left = Math.min(left, x - width / 2); right = Math.max(right, x + width / 2);
      top = Math.min(top, y - height / 2); bottom = Math.max(bottom, y + height / 2);
    }
    return {left, right, top, bottom};
  },
  size() { return [this.canvas.clientWidth || 800, this.canvas.clientHeight || 600]; },
  /// Readable from the top: a deep graph as a whole is a hair.
  start_place() {
    if (this.items.length === 0) return;
    const {left, right, top} = this.box(), [width] = this.size();
    const first = this.items.reduce((a, b) => (b.y < a.y ? b : a));
    const k = Math.min(1, Math.max(0.45, (width - 40) / (right - left)));
    const middle = k * (right - left) > width ? first.x : (left + right) / 2;
    this.place(d3.zoomIdentity.translate(width / 2 - k * middle, 20 - k * top).scale(k));
  },
  fit() {
    if (this.items.length === 0) return;
    const {left, right, top, bottom} = this.box(), [width, height] = this.size();
    const k = Math.min(1, (width - 30) / (right - left), (height - 30) / (bottom - top));
    this.place(d3.zoomIdentity.translate(width / 2 - k * (left + right) / 2, height / 2 - k * (top + bottom) / 2).scale(k));
  },
  place(transform) { d3.select(this.canvas).call(this.zoom.transform, transform); },
  scale(factor) { d3.select(this.canvas).call(this.zoom.scaleBy, factor); },
  centre(item) {
    const [width, height] = this.size(), k = Math.max(0.8, this.transform.k);
    this.place(d3.zoomIdentity.translate(width / 2 - k * item.x, height / 2 - k * item.y).scale(k));
  },

  item_at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = this.transform.invert([event.clientX - box.left, event.clientY - box.top]);
    for (const [row, items] of this.rows || [])
      if (Math.abs(row - y) <= kNodeHeight / 2)
        for (const item of items) if (Math.abs(item.x - x) <= item.width / 2) return item;
    return null;
  },
  /// Where an item is in the window, for tests.
  window_place(key) {
    const item = this.by_key.get(key), box = this.canvas.getBoundingClientRect();
    const [x, y] = this.transform.apply([item.x, item.y]);
    return [box.left + x, box.top + y];
  },

  click(event) {
    const item = this.item_at(event);
    if (!item) page.select(null);
    else if (item.block !== undefined) page.select({block: item.block});
    else if (item.node !== undefined) page.select({node: item.node});
    else page.select({step: item.step});
  },
  toggle(item) {
    if (!item || this.mode === 'nodes') return;
    const key = item.node !== undefined ? `step ${item.step}` : item.key;
    this.expand(key, item);
  },
  /// Opens what is closed, and closes what is open.
  expand(key) {
    const before = this.by_key.get(key);
    if (this.expanded.has(key)) this.expanded.delete(key);
    else this.expanded.add(key);
    this.lay_out();
    const steps = this.report.steps;
    const inside = this.items.find((item) => item.key === key ||
        (item.step >= 0 && (`step ${item.step}` === key || steps[item.step].block === key)));
    if (inside || before) this.centre(inside || before);
    this.redraw();
  },

  /// Shows where the selection is, opening nothing.
  item_of(selection) {
    if (!selection) return null;
    const {report} = this;
    if (selection.node !== undefined) return this.by_key.get(this.key_of_node(report.nodes[selection.node])) || null;
    if (selection.block !== undefined) return this.by_key.get(selection.block) || null;
    const step = report.steps[selection.step];
    const key = this.mode === 'nodes' ? null : this.key_of_step(step);
    return this.by_key.get(key) || this.by_key.get(`node ${step.nodes[0]}`) || null;
  },
  reveal(selection) {
    const item = this.item_of(selection);
    if (!item) return this.redraw();
    const [width, height] = this.size(), [x, y] = this.transform.apply([item.x, item.y]);
    if (x < 0 || y < 0 || x > width || y > height) this.centre(item);
    this.redraw();
  },

  find() {
    const text = this.search.value.trim().toLowerCase();
    this.found = text === '' ? [] : this.items.filter((item) => {
      const own = [item.label, item.name, item.block || ''];
      if (item.node === undefined && item.step >= 0) own.push(...this.report.steps[item.step].origins);
      return own.some((each) => each.toLowerCase().includes(text));
    });
    this.found_at = -1;
    this.count.textContent = text === '' ? `${format.count(this.items.length)} boxes` : `${format.count(this.found.length)} found`;
    if (this.found.length > 0) this.find_next();
    else this.redraw();
  },
  find_next() {
    if (this.found.length === 0) return;
    this.found_at = (this.found_at + 1) % this.found.length;
    this.centre(this.found[this.found_at]);
    this.redraw();
  },

  redraw() {
    if (this.is_waiting || !this.canvas?.isConnected) return;
    this.is_waiting = true;
    requestAnimationFrame(() => { this.is_waiting = false; this.draw(); });
  },

  draw() {
    if (!this.canvas.isConnected) return;
    const [width, height] = this.size(), ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    const context = this.canvas.getContext('2d'), {k} = this.transform;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.translate(this.transform.x, this.transform.y);
    context.scale(k, k);
    const [left, top] = this.transform.invert([0, 0]), [right, bottom] = this.transform.invert([width, height]);
    const chosen = this.item_of(page.selection);
    const chosen_steps = new Set(page.selection?.step !== undefined ? [page.selection.step] : []);
    this.draw_edges(context, {left, top, right, bottom}, chosen);
    const text = theme_colour('text'), accent = theme_colour('accent'), mark = theme_colour('mark');
    const found = new Set(this.found);
    const colours = new Map();
    const colour = (step, strong) => {
      const key = 2 * step + strong;
      if (!colours.has(key)) colours.set(key, colour_of(step, strong));
      return colours.get(key);
    };
    context.textBaseline = 'middle';
    for (const item of this.items) {
      const {x, y} = item;
      if (x + item.width / 2 < left || x - item.width / 2 > right || y + item.height / 2 < top || y - item.height / 2 > bottom) continue;
      context.fillStyle = item.block !== undefined ? theme_colour('card') : colour(item.step, false);
      context.strokeStyle = item.block !== undefined ? theme_colour('soft') : colour(item.step, true);
      context.lineWidth = 1.2;
      context.beginPath();
      if (k > 0.3) context.roundRect(x - item.width / 2, y - item.height / 2, item.width, item.height, 6);
      else context.rect(x - item.width / 2, y - item.height / 2, item.width, item.height);
      context.fill();
      const is_chosen = item === chosen || (item.step >= 0 && chosen_steps.has(item.step));
      if (is_chosen || found.has(item)) {
        context.strokeStyle = is_chosen ? accent : mark;
        context.lineWidth = Math.max(3, 2 / k);
      }
      if (k > 0.12 || is_chosen || found.has(item)) context.stroke();
      if (k < 0.35) continue;
      context.fillStyle = text;
      context.font = '600 12px system-ui, sans-serif';
      context.fillText(shorten(item.label, 32), x - item.width / 2 + 9, y - 7, item.width - 18);
      context.font = '11px system-ui, sans-serif';
      context.fillText(shorten(item.name, 38), x - item.width / 2 + 9, y + 8, item.width - 18);
    }
  },

  draw_edges(context, {left, top, right, bottom}, chosen) {
    const soft = theme_colour('edge'), accent = theme_colour('accent'), {k} = this.transform;
    const line = (path) => {
      const {points, is_bow} = path;
      context.beginPath();
      context.moveTo(...points[0]);
      if (is_bow) {
        const [[x0, y0], [x1, y1]] = points;
        const out = Math.min(260, 60 + Math.abs(y1 - y0) * 0.05) + Math.max(x0, x1);
        context.bezierCurveTo(out, y0 + 40, out, y1 - 40, x1, y1);
      } else {
        for (let i = 1; i < points.length; ++i) {
          const [x0, y0] = points[i - 1], [x1, y1] = points[i];
          const middle = (y0 + y1) / 2;
          context.bezierCurveTo(x0, middle, x1, middle, x1, y1);
        }
      }
      context.stroke();
    };
    const strong = [];
    context.strokeStyle = soft;
    context.lineWidth = Math.max(1, 0.6 / k);
    this.paths.forEach((path, e) => {
      const {points, is_bow} = path, first = points[0], last = points[points.length - 1];
      if (Math.max(first[1], last[1]) < top || Math.min(first[1], last[1]) > bottom) return;
      const xs = points.map((point) => point[0]);
      if (Math.max(...xs) + (is_bow ? 260 : 0) < left || Math.min(...xs) > right) return;
      const [a, b] = this.edges[e];
      if (chosen && (this.items[a] === chosen || this.items[b] === chosen)) { strong.push(path); return; }
      context.globalAlpha = is_bow ? 0.35 : 1;
      line(path);
    });
    context.globalAlpha = 1;
    context.strokeStyle = accent;
    context.lineWidth = Math.max(2, 1.2 / k);
    strong.forEach(line);
  },
};
