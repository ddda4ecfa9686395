// The page: which report, which tab, what is selected, light or dark.

const page = {
  view: document.getElementById('view'),
  reports: [], names: [], report: null, tab: 'graph', selection: null,

  start() {
    const preference = window.matchMedia('(prefers-color-scheme: dark)');
    let is_chosen = false;
    const follow = () => { document.documentElement.dataset.theme = preference.matches ? 'dark' : 'light'; };
    follow();
    preference.addEventListener('change', () => { if (!is_chosen) { follow(); this.draw(); } });
    document.getElementById('theme').addEventListener('click', () => {
      is_chosen = true;
      const root = document.documentElement;
      root.dataset.theme = root.dataset.theme === 'dark' ? 'light' : 'dark';
      this.draw();
      if (this.selection) this.show_details();
    });

    const data = JSON.parse(document.getElementById('data').textContent);
    this.reports = [data.report, data.against].filter(Boolean).map((raw) => new Report(raw));
    this.names = this.reports.map(({summary}) => summary.title);
    if (this.names.length > 1 && this.names[0] === this.names[1]) this.names = this.names.map((name, i) => `${name} (${i + 1})`);
    this.report = this.reports[0];
    const side = document.getElementById('side');
    side.hidden = this.reports.length < 2;
    side.append(...this.names.map((name, i) => make('option', {value: i}, name)));
    side.addEventListener('change', () => {
      this.report = this.reports[Number(side.value)];
      this.selection = null;
      details.close();
      this.open(this.tab);
    });
    document.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') this.select(null);
      if (event.key === '/' && this.tab === 'graph' && document.activeElement !== graph_view.search) {
        graph_view.search.focus();
        event.preventDefault();
      }
    });
    let width = window.innerWidth;
    window.addEventListener('resize', () => {
      if (window.innerWidth !== width && this.tab !== 'graph') this.draw();
      width = window.innerWidth;
    });
    this.open(this.names.length > 1 ? 'difference' : 'graph');
    requestAnimationFrame(() => requestAnimationFrame(() => { this.ready_ms = performance.now(); }));
  },

  open(tab) {
    const there = panels.filter((panel) => panel.is_there(this.report));
    this.tab = there.some(({id}) => id === tab) ? tab : 'overview';
    const {summary} = this.report;
    document.getElementById('title').textContent = summary.title;
    const subtitle = [[summary.target, ...(summary.architectures || [])].join(' '), summary.shapes].join(' · ');
    document.getElementById('subtitle').textContent = subtitle.length > 140 ? `${subtitle.slice(0, 139)}…` : subtitle;
    document.getElementById('tabs').replaceChildren(...there.map(({id, title}) => make('button', {
      role: 'tab', id: `tab-${id}`, 'aria-selected': String(id === this.tab), onclick: () => this.open(id)}, title)));
    this.view.scrollTop = 0;
    this.draw();
  },

  draw() {
    const panel = panels.find(({id}) => id === this.tab);
    this.view.className = '';
    const drawn = panel.draw(this.report);
    if (drawn) this.view.replaceChildren(...drawn.flat().filter(Boolean));
  },

  /// {step}, {node}, {block}, each with its number or name, or null.
  select(selection) {
    this.selection = selection;
    const was_hidden = details.element.hidden;
    if (selection === null) details.close();
    else this.show_details();
    if (this.tab === 'graph') return graph_view.reveal(selection);
    // Drawings have the width that the panel leaves them.
    if (was_hidden !== details.element.hidden && this.view.querySelector('svg')) return this.draw();
    for (const mark of this.view.querySelectorAll('.chosen')) mark.classList.remove('chosen');
    if (selection?.step === undefined) return undefined;
    for (const mark of this.view.querySelectorAll(`.step-${selection.step}, tr[data-step="${selection.step}"]`)) mark.classList.add('chosen');
    return undefined;
  },

  show_details() {
    const {report, selection} = this;
    if (selection.step !== undefined) details.step(report, report.steps[selection.step]);
    else if (selection.node !== undefined) details.node(report, report.nodes[selection.node]);
    else details.block(report, selection.block, report.steps.filter((step) => step.block === selection.block));
  },
};

page.start();
