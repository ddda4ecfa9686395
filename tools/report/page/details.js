// The panel beside the view: all that is known of one kernel, one ONNX node or one block.

const details = {
  element: document.getElementById('details'),

  close() {
    this.element.hidden = true;
    this.element.replaceChildren();
  },

  show(...children) {
    this.element.replaceChildren(
        make('button', {class: 'close', title: 'Close', 'aria-label': 'Close', onclick: () => page.select(null)}, '×'),
        ...children.flat().filter(Boolean));
    this.element.hidden = false;
    this.element.scrollTop = 0;
  },

  rows(pairs) {
    return make('table', {}, pairs.filter(([, value]) => value !== '' && value !== undefined && value !== null)
        .map(([name, value]) => make('tr', {}, make('th', {}, name), make('td', {}, value))));
  },

  step_link(step) {
    return make('button', {class: 'link', onclick: () => page.select({step: step.index})},
                make('span', {class: 'chip', style: `background:${colour_of(step.index, true)}`}), step.name);
  },

  node_link(report, name) {
    const index = report.node_of_name.get(name);
    return index === undefined ? name :
        make('button', {class: 'link', onclick: () => page.select({node: index})}, name);
  },

  /// Decisions about fusing, refused ones first: they say what could be better.
  decisions(report, indices) {
    if (!report.summary.is_model)
      return [make('h2', {}, 'Why'), make('p', {class: 'note'},
          'A plan does not keep why nodes were or were not fused: make the report of the model, or ask “sinter inspect MODEL --why A B”.')];
    if (indices.length === 0) return [];
    const list = indices.map((i) => report.decisions[i]).sort((a, b) => a.fused - b.fused);
    const most = 60;
    return [
      make('h2', {}, 'Why'),
      make('ul', {class: 'plain', id: 'why'}, list.slice(0, most).map((decision) => make('li', {},
          make('span', {class: decision.fused ? 'good' : 'bad'}, decision.fused ? '✓ ' : '✗ '),
          `${decision.producer} → ${decision.consumer}`, make('br'),
          make('span', {class: 'note'}, decision.reason)))),
      list.length > most ? make('p', {class: 'note'}, `and ${list.length - most} more`) : null,
    ];
  },

  step(report, step) {
    const time = step.time;
    const sources = report.source_of(step);
    const variants = step.variants.map((variant) => this.rows([
      ['function', variant.function],
      ['schedule', variant.schedule],
      ['chosen by', variant.chosen_by],
      ['when', variant.conditions.join(' and ') || 'always'],
      ['grid', variant.grid.join(' × ')],
      ['block', variant.block.join(' × ')],
      ['shared memory', format.bytes(variant.shared_bytes)],
    ]));
    this.show(
        make('h2', {}, make('span', {class: 'chip', style: `background:${colour_of(step.index, true)}`}), step.name),
        this.rows([
          ['what', step.region ? `${step.region} (${step.kind})` : step.kind],
          ['tactics', step.ways === step.kind ? '' : step.ways],
          ['launches', `${step.launches}${step.runs}`],
          ['read', format.bytes(step.read)],
          ['written', format.bytes(step.written)],
          ['operations', format.large(step.operations)],
          ['time', time ? `${format.time(time.us)}, ${format.percent(time.us / report.profile.total_us)} of the steps` : ''],
          ['bound by', time ? `${time.bound}, at ${format.percent(time.share_of_bound)} of that bound` : ''],
          ['rate', time ? `${format.large(time.bytes_per_s)}B/s, ${format.large(time.flops_per_s)}FLOP/s` : ''],
          ['taken', time?.how],
          ['error', step.error ? `${format.error(step.error.relative_error ?? Infinity)}, allowed are ${format.error(step.error.tolerance)}${step.error.failure ? `: ${step.error.failure}` : ''}` : ''],
        ]),
        time && time.parts.length > 0 ? [make('h2', {}, 'Parts'), this.rows(time.parts.map((part) => [
          part.name, `${format.time(part.us)}, ${part.launches} launch${part.launches === 1 ? '' : 'es'}` +
              (part.kernel ? `; ${part.kernel.registers_per_thread} registers, ${part.kernel.spilled_bytes_per_thread} B spilled, occupancy ${format.percent(part.kernel.occupancy)}` : '')]))] : null,
        variants.length > 0 ? [make('h2', {}, 'Schedule'), ...variants] : null,
        make('h2', {}, `ONNX nodes (${step.origins.length})`),
        make('ul', {class: 'plain', id: 'origins'}, step.origins.map((name) => make('li', {}, this.node_link(report, name)))),
        this.decisions(report, step.decisions),
        sources.map(({name, source}) => make('details', {open: true}, make('summary', {}, `CUDA: ${name}`), make('pre', {}, source))),
        step.body ? make('details', {open: sources.length === 0}, make('summary', {}, 'What it computes'), make('pre', {}, step.body)) : null);
  },

  node(report, node) {
    const names = new Set(node.origins || [node.name]);
    const about = [];
    report.decisions.forEach((decision, i) => {
      if ([...decision.from, ...decision.to].some((origin) => names.has(origin))) about.push(i);
    });
    this.show(
        make('h2', {}, node.name),
        this.rows([['operator', node.op], ['result', node.type]]),
        make('h2', {}, node.steps.length === 1 ? 'Kernel' : 'Kernels'),
        node.steps.length === 0 ?
            make('p', {class: 'note'}, 'None: it was computed while compiling, or only changes how memory is read.') :
            make('ul', {class: 'plain'}, node.steps.map((i) => make('li', {}, this.step_link(report.steps[i])))),
        node.origins ? [make('h2', {}, 'Merged of'), make('ul', {class: 'plain'}, node.origins.map((name) => make('li', {}, name)))] : null,
        this.decisions(report, about));
  },

  block(report, block, steps) {
    const sum = (of) => steps.reduce((total, step) => total + of(step), 0);
    this.show(
        make('h2', {}, block),
        this.rows([
          ['kernels', `${steps.length}`],
          ['launches', `${sum((step) => step.launches)}`],
          ['read', format.bytes(sum((step) => step.read))],
          ['written', format.bytes(sum((step) => step.written))],
          ['time', report.profile ? format.time(sum((step) => step.time?.us || 0)) : ''],
        ]),
        make('button', {onclick: () => graph_view.expand(block)}, 'Open it'),
        make('ul', {class: 'plain'}, steps.map((step) => make('li', {}, this.step_link(step)))));
  },
};
