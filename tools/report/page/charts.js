// Drawings as SVG: the timeline, the roofline, memory over the steps, bars with spread. Each returns
// an element; a click on a kernel's mark selects it.

const charts = {
  width() { return Math.max(480, page.view.clientWidth - 40); },

  svg(width, height, label) {
    return d3.create('svg').attr('width', width).attr('height', height)
        .attr('viewBox', `0 0 ${width} ${height}`).attr('role', 'img').attr('aria-label', label);
  },

  /// Marks of steps: coloured, with a tooltip, selectable.
  mark(selection, step_of, title_of) {
    selection.attr('class', (d) => `hit step-${step_of(d)}${page.selection?.step === step_of(d) ? ' chosen' : ''}`)
        .attr('fill', (d) => colour_of(step_of(d), true))
        .on('click', (d) => page.select({step: step_of(d)}));
    selection.append('title').text(title_of);
    return selection;
  },

  /// When steps run: behind the one before on their stream, and behind those of other streams that
  /// they wait for, each as long as it takes alone. Inputs are copied before, outputs behind.
  schedule(report) {
    const {host_to_device_us: to_device = 0, device_to_host_us: to_host = 0} = report.profile.transfers || {};
    const free = new Map(), ends = new Map();
    const steps = [], parts = [], copies = [];
    for (const step of report.steps) {
      if (!step.time) continue;
      const lane = step.time.stream || 0;
      const start = Math.max(free.get(lane) ?? to_device, ...(step.time.waits || []).map((name) => ends.get(name) || 0));
      steps.push({step: step.index, lane, start, us: step.time.us, name: step.name});
      let inner = start;
      for (const part of step.time.parts) {
        parts.push({step: step.index, lane, start: inner, us: part.us, name: part.name, launches: part.launches});
        inner += part.us;
      }
      free.set(lane, start + step.time.us);
      ends.set(step.name, start + step.time.us);
    }
    const last = Math.max(to_device, ...free.values()), end = Math.max(last, to_device + report.profile.whole_us);
    if (to_device > 0) copies.push({start: 0, us: to_device, name: 'inputs to the device'});
    if (to_host > 0) copies.push({start: end, us: to_host, name: 'outputs to the host'});
    return {steps, parts, copies, first: to_device, last, end: end + to_host, lanes: [...free.keys()].sort((x, y) => x - y)};
  },

  /// Steps as they were timed, a row for each stream and one below for its launches, and what the
  /// whole run and its copies took. Zooms along time.
  timeline(report) {
    const {profile} = report, plan = this.schedule(report), width = this.width(), left = 90, row_height = 32;
    const labels = plan.lanes.flatMap((lane) => plan.lanes.length > 1 ? [`stream ${lane}`, 'launches'] : ['steps', 'launches']);
    labels.push('whole run');
    if (plan.copies.length > 0) labels.push('copies');
    const y_of = (row) => 24 + row * row_height, height = y_of(labels.length) + 30;
    const row_of = (d) => 2 * plan.lanes.indexOf(d.lane);
    const whole_row = 2 * plan.lanes.length;
    const scale = d3.scaleLinear().domain([0, plan.end]).range([left, width - 14]);
    const svg = this.svg(width, height, 'Timeline');
    const id = 'plot-area';
    svg.append('clipPath').attr('id', id).append('rect').attr('x', left).attr('width', width - left - 10).attr('height', height);
    labels.forEach((text, row) => svg.append('text').attr('class', 'soft').attr('x', 0).attr('y', y_of(row) + 17).text(text));
    const area = svg.append('g').attr('clip-path', `url(#${id})`);
    const axis = svg.append('g').attr('class', 'axis').attr('transform', `translate(0,${height - 26})`);
    const bars = (data, row) => area.append('g').selectAll('rect').data(data).enter().append('rect')
        .attr('y', (d) => y_of(row(d))).attr('height', 24);
    const rows = [
      this.mark(bars(plan.steps, row_of), (d) => d.step, (d) => `${d.name}\n${format.time(d.us)}`),
      this.mark(bars(plan.parts, (d) => row_of(d) + 1), (d) => d.step, (d) => `${d.name}\n${format.time(d.us)}, ${d.launches} launch${d.launches === 1 ? '' : 'es'}`),
    ];
    const whole = bars([{start: plan.first, us: profile.whole_us}], () => whole_row).attr('fill', theme_colour('edge'));
    whole.append('title').text(`the whole run as it is replayed: ${format.time(profile.whole_us)}`);
    const gaps = bars(profile.gaps_us > 0 ? [{start: plan.last, us: profile.gaps_us}] : [], () => 0)
        .attr('fill', 'none').attr('stroke', theme_colour('bad')).attr('stroke-dasharray', '4 3').attr('id', 'gaps');
    gaps.append('title').text(`gaps: ${format.time(profile.gaps_us)} of the whole run in which no step runs (where they lie is not measured)`);
    const copies = bars(plan.copies, () => whole_row + 1).attr('fill', theme_colour('soft')).attr('class', 'copy');
    copies.append('title').text((d) => `${d.name}: ${format.time(d.us)}`);
    rows.push(whole, gaps, copies);
    const draw = (own) => {
      for (const row of rows)
        row.attr('x', (d) => own(d.start)).attr('width', (d) => Math.max(0.5, own(d.start + d.us) - own(d.start) - 0.3));
      axis.call(d3.axisBottom(own).ticks(8).tickFormat(format.time));
    };
    draw(scale);
    svg.call(d3.zoom().scaleExtent([1, 5000]).translateExtent([[left, 0], [width, height]]).extent([[left, 0], [width, height]])
        .on('zoom', () => draw(d3.event.transform.rescaleX(scale))));
    return svg.node();
  },

  /// Rates against intensity, both logarithmic, below what the machine can do.
  roofline(report) {
    const {machine} = report.profile, width = Math.min(980, this.width()), height = 430;
    const [left, bottom, right] = [70, 44, 110];
    const points = report.steps.filter((step) => step.time && step.time.us > 0 && step.time.flops > 0 && step.time.bytes > 0)
        .map((step) => ({step: step.index, name: step.name, us: step.time.us, bound: step.time.bound, share: step.time.share_of_bound,
                         intensity: step.time.flops / step.time.bytes, rate: step.time.flops / step.time.us * 1e6}));
    const peaks = Object.entries(machine.operations_per_s || {}).filter(([, rate]) => rate > 0);
    const used = new Set(report.steps.map((step) => step.time?.arithmetic));
    const roofs = peaks.filter(([name]) => used.has(name));
    if (points.length === 0) return make('p', {class: 'note'}, 'No step computes anything.');
    const copy = machine.copy_bytes_per_s;
    const top = Math.max(...roofs.map(([, rate]) => rate), ...points.map((point) => point.rate)) * 2;
    const [low, high] = [Math.min(...points.map((p) => p.intensity)), Math.max(...points.map((p) => p.intensity), top / (copy || top))];
    const x = d3.scaleLog().domain([low / 2, high * 2]).range([left, width - right]);
    const y = d3.scaleLog().domain([Math.min(...points.map((p) => p.rate)) / 2, top]).range([height - bottom, 12]);
    const svg = this.svg(width, height, 'Roofline');
    const decades = (scale) => scale.ticks().filter((value) => Math.abs(Math.log10(value) % 1) < 1e-9);
    svg.append('g').attr('class', 'axis').attr('transform', `translate(0,${height - bottom})`)
        .call(d3.axisBottom(x).tickValues(decades(x)).tickFormat((value) => `${value}`));
    svg.append('g').attr('class', 'axis').attr('transform', `translate(${left},0)`)
        .call(d3.axisLeft(y).tickValues(decades(y)).tickFormat((value) => format.large(value).replace(/\.0+ /, ' ')));
    svg.append('text').attr('x', (left + width - right) / 2).attr('y', height - 8).attr('text-anchor', 'middle').text('operations for each byte');
    svg.append('text').attr('transform', `translate(14,${height / 2}) rotate(-90)`).attr('text-anchor', 'middle').text('operations a second');
    svg.append('clipPath').attr('id', 'roof-area').append('rect').attr('x', left).attr('y', 12).attr('width', width - left - right).attr('height', height - bottom - 12);
    const area = svg.append('g').attr('clip-path', 'url(#roof-area)');
    const roof = (rate) => {
      const ridge = copy > 0 ? rate / copy : x.domain()[0];
      return [[x.domain()[0], copy > 0 ? Math.min(rate, copy * x.domain()[0]) : rate], [Math.max(ridge, x.domain()[0]), rate], [x.domain()[1], rate]];
    };
    for (const [name, rate] of roofs) {
      area.append('path').attr('fill', 'none').attr('stroke', theme_colour('soft')).attr('stroke-width', 1.5)
          .attr('d', d3.line().x((p) => x(p[0])).y((p) => y(Math.max(p[1], y.domain()[0])))(roof(rate)));
      svg.append('text').attr('class', 'soft').attr('x', width - right + 6).attr('y', y(rate) + 4).text(name);
    }
    const radius = d3.scaleSqrt().domain([0, Math.max(...points.map((point) => point.us))]).range([2.5, 17]);
    this.mark(area.selectAll('circle').data(points.sort((a, b) => b.us - a.us)).enter().append('circle')
        .attr('cx', (p) => x(p.intensity)).attr('cy', (p) => y(p.rate)).attr('r', (p) => radius(p.us))
        .attr('fill-opacity', 0.75), (p) => p.step,
        (p) => `${p.name}\n${format.time(p.us)}, ${format.large(p.rate)}FLOP/s, ${p.intensity.toPrecision(3)} operations for each byte\nbound by ${p.bound}, at ${format.percent(p.share)} of that bound`);
    return svg.node();
  },

  /// Buffers of the arena: from the first to the last step that uses them, at their addresses.
  memory(report) {
    const first = report.raw.first_step || 0, count = report.steps.length;
    const buffers = report.raw.buffers.filter((buffer) => buffer.offset !== undefined && buffer.bytes > 0);
    const width = this.width(), height = 440, [left, bottom] = [76, 40];
    if (buffers.length === 0) return make('p', {class: 'note'}, 'No value lies in the arena.');
    const x = d3.scaleLinear().domain([0, count]).range([left, width - 14]);
    const y = d3.scaleLinear().domain([0, report.raw.arena_bytes]).range([height - bottom, 10]);
    const svg = this.svg(width, height, 'Memory over the steps');
    const axes = [svg.append('g').attr('class', 'axis').attr('transform', `translate(0,${height - bottom})`),
                  svg.append('g').attr('class', 'axis').attr('transform', `translate(${left},0)`)];
    svg.append('text').attr('x', width / 2).attr('y', height - 6).attr('text-anchor', 'middle').text('step');
    svg.append('clipPath').attr('id', 'memory-area').append('rect').attr('x', left).attr('width', width - left - 10).attr('height', height - bottom + 1);
    const area = svg.append('g').attr('clip-path', 'url(#memory-area)');
    const writers = new Map();
    for (const step of report.steps) for (const buffer of step.writes || []) if (!writers.has(buffer)) writers.set(buffer, step.index);
    const writer = (d) => writers.has(d.buffer) ? writers.get(d.buffer) : -1;
    const marks = area.selectAll('rect').data(buffers).enter().append('rect')
        .attr('y', (d) => y(d.offset + d.bytes)).attr('height', (d) => Math.max(1, y(d.offset) - y(d.offset + d.bytes) - 0.5));
    this.mark(marks, writer, (d) => `${format.bytes(d.bytes)} at ${format.count(d.offset)}, steps ${d.first_step - first} to ${d.last_step - first}` +
        (writer(d) >= 0 ? `\nwritten by ${report.steps[writer(d)].name}` : ''));
    const draw = (own) => {
      marks.attr('x', (d) => own(d.first_step - first)).attr('width', (d) => Math.max(1, own(d.last_step - first + 1) - own(d.first_step - first) - 0.5));
      axes[0].call(d3.axisBottom(own).ticks(10));
    };
    axes[1].call(d3.axisLeft(y).ticks(6).tickFormat(format.bytes));
    draw(x);
    svg.call(d3.zoom().scaleExtent([1, 1000]).translateExtent([[left, 0], [width, height]]).extent([[left, 0], [width, height]])
        .on('zoom', () => draw(d3.event.transform.rescaleX(x))));
    return svg.node();
  },

  /// Medians as bars, with a line from the tenth to the ninetieth percentile.
  bars(variants, key) {
    const width = Math.min(900, this.width()), row = 34, left = 190, height = row * variants.length + 30;
    const x = d3.scaleLinear().domain([0, Math.max(...variants.map(([, v]) => v[key].p90)) * 1.02]).range([left, width - 190]);
    const svg = this.svg(width, height, 'Fused against unfused');
    variants.forEach(([name, variant], i) => {
      const {median, p10, p90} = variant[key], y = i * row + 4, middle = y + (row - 8) / 2;
      svg.append('text').attr('x', left - 8).attr('y', middle + 4).attr('text-anchor', 'end').text(name);
      svg.append('rect').attr('x', left).attr('y', y).attr('width', x(median) - left).attr('height', row - 8)
          .attr('fill', name.includes('unfused') ? theme_colour('edge') : theme_colour('accent'));
      svg.append('line').attr('x1', x(p10)).attr('x2', x(p90)).attr('y1', middle).attr('y2', middle).attr('stroke', theme_colour('text')).attr('stroke-width', 2);
      for (const at of [p10, p90])
        svg.append('line').attr('x1', x(at)).attr('x2', x(at)).attr('y1', middle - 6).attr('y2', middle + 6).attr('stroke', theme_colour('text')).attr('stroke-width', 2);
      svg.append('text').attr('x', x(p90) + 10).attr('y', middle + 4)
          .text(`${format.time(median)}, ${variant.speed_up.toFixed(2)}×, ${variant.launches} launches`);
    });
    svg.append('g').attr('class', 'axis').attr('transform', `translate(0,${height - 24})`).call(d3.axisBottom(x).ticks(6).tickFormat(format.time));
    return svg.node();
  },
};
