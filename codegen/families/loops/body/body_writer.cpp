#include "codegen/families/loops/body/body_writer.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/families/loops/schedule_parts.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

BodyWriter::BodyWriter(const ProgramAnalysis& analysis, Arguments& args,
                       const ThreadMapping& mapping, CodeText& code)
    : analysis_(analysis),
      args_(args),
      mapping_(&mapping),
      code_(code),
      math_(analysis),
      index_(analysis, args, mapping, [this](std::uint32_t i) { return names_[i]; }),
      names_(analysis.instr_count()),
      inverses_(analysis.instr_count()),
      pointers_(analysis.program().accesses.size()),
      kept_(analysis.instr_count(), false),
      divides_(analysis.instr_count(), false),
      staged_(analysis.instr_count(), false),
      grouped_(analysis.instr_count(), false),
      uniform_(
          uniform_in_vectors(analysis, mapping.schedule->vector_dim, mapping.schedule->vector)) {
  find_staged();
  if (mapping.unrolled()) keep_subscript_ += "[k]";
  if (vector() > 1) keep_subscript_ += "[j]";
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    const auto& instr = analysis.instr(i);
    if (!live(i)) continue;
    const bool computed = instr.kind == InstrKind::Op || instr.kind == InstrKind::Scan ||
                          (instr.kind == InstrKind::Load && !is_preloaded(i));
    const bool late = instr.kind == InstrKind::Load && is_late(analysis, *mapping.schedule, i);
    kept_[i] = !mapping.looped() && computed && !late && per_element(i) && !is_row_vector(i) &&
               keeps_for_later(analysis, i) &&
               !(mapping.schedule->lean && is_cheap_again(analysis, i, mapping.schedule->again));
    if (instr.kind == InstrKind::Op && static_cast<ScalarOp>(instr.op) == ScalarOp::kDiv &&
        analysis.type_of(i) == DType::kFloat32 && in_loop(i) &&
        (!in_loop(instr.args[1]) || (is_row_vector(instr.args[1]) && !is_row_vector(i))) &&
        analysis.instr(instr.args[1]).kind != InstrKind::Constant)
      divides_[instr.args[1]] = true;
  }
}

void BodyWriter::write() {
  if (mapping_->schedule->family == Family::kWindow) return write_windows();
  if (mapping_->scratch_offset == 0) declare_shared();
  declare_all(mapping_->prologue);
  if (mapping_->scratch_offset != 0) declare_scratch();
  declare_carries();
  const bool one_pass = mapping_->pass_header.empty(), turns = !mapping_->turn_header.empty();
  constexpr const char* kNotUnrolled = "#pragma unroll 1";
  if (turns) {
    code_.line(kNotUnrolled);
    code_.open(mapping_->turn_header);
    declare_all(mapping_->turn_lines);
  }
  if (!one_pass) {
    declare_all(mapping_->behind_preload);
    define_row_loads();
    // Where the body is long its code would not fit the caches.
    code_.line(mapping_->unroll_passes ? "#pragma unroll" : kNotUnrolled);
    code_.open(mapping_->pass_header);
  }
  if (row_loads_)  // twice as fast as passes need them: each that is done leaves registers
    code_.line(fmt::format("if (pass * 2 < {}) load_rows(pass * 2), load_rows(pass * 2 + 1);",
                           mapping_->passes));
  declare_all(mapping_->pass_lines);
  if (mapping_->loop_header.empty()) declare_all(mapping_->loop_lines);
  for (int stage = 0; stage <= analysis_.stages(); ++stage) {
    thread_values(stage);
    if (stage == 0) {
      preload();
      if (one_pass) declare_all(mapping_->behind_preload);
      if (mapping_->turned) fill_tiles();
    }
    if (has_row_vectors()) row_vectors(stage);
    pass(stage);
    combine_reductions(stage);
    if (mapping_->turned) empty_tiles();
  }
  if (!one_pass) code_.close();
  if (turns) code_.close();
  declare_all(mapping_->epilogue);
}

bool BodyWriter::per_element(std::size_t i) const {
  const int dim = mapping_->schedule->vector_dim;
  return in_loop(i) && !(vector() > 1 && uniform_[i]) &&
         (dim < 0 || (analysis_.value(i).dims & dim_bit(static_cast<std::size_t>(dim))) != 0);
}

/// What differs between the rows of a thread's vector, not between their elements.
bool BodyWriter::is_row_vector(std::size_t i) const {
  return has_row_vectors() && in_loop(i) && analysis_.instr(i).kind != InstrKind::Index &&
         (analysis_.value(i).dims & analysis_.inner_dims()) == 0;
}

bool BodyWriter::gathers_by_element(std::size_t i) const {
  for (const auto& gather : analysis_.access(analysis_.instr(i).access).gathers)
    if (in_loop(gather.value())) return true;
  return false;
}

/// Loads that are issued before anything waits for one of them.
bool BodyWriter::is_preloaded(std::size_t i) const {
  if (grouped_[i]) return true;
  // While a product is computed there is time for loads, as long as one pass takes them all.
  const bool ahead = analysis_.stages() > 0 || mapping_->unrolled() ||
                     (!mapping_->products.empty() && mapping_->pass_header.empty()) ||
                     !mapping_->given_loads.empty();
  if (!mapping_->given_loads.empty() && !mapping_->given_loads[i]) return false;
  return analysis_.instr(i).kind == InstrKind::Load && live(i) && !mapping_->product_read(i) &&
         !is_turned(i) && !is_row_vector(i) && !mapping_->looped() && ahead && per_element(i) &&
         analysis_.value(i).stage == 0 && !gathers_by_element(i) &&
         !is_late(analysis_, *mapping_->schedule, i);
}

/// What each row has of its own, in whole vectors: loaded while passes before compute.
bool BodyWriter::is_passes_ahead(std::size_t i) const {
  return !mapping_->passes.empty() && is_preloaded(i) && is_vector(i) &&
         !is_shared_by_rows(analysis_, i) &&
         analysis_.access(analysis_.instr(i).access).gathers.empty();
}

/// A function that loads what a pass's rows have of their own.
void BodyWriter::define_row_loads() {
  std::vector<std::size_t> loads;
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i)
    if (is_passes_ahead(i)) loads.push_back(i);
  row_loads_ = !loads.empty();
  if (!row_loads_) return;
  for (const std::size_t i : loads)
    code_.line(fmt::format("Vec<{}, {}> r{}[{}][{}];", buffer_type_name(i), vector(), i,
                           mapping_->passes, mapping_->schedule->unroll));
  code_.open("const auto load_rows = [&](int pass)");
  declare_all(mapping_->pass_lines);
  for (const std::size_t i : loads) declare_pointer(i);
  open_vectors();
  for (const std::size_t i : loads)
    code_.line(fmt::format("r{}[pass][k] = {};", i, raw_expression(i, true)));
  close_vectors();
  code_.close(";");
  for (const std::size_t i : loads) pointers_[analysis_.instr(i).access].clear();
}

/// As many loads as static shared memory holds.
void BodyWriter::find_staged() {
  std::size_t room = 40 * 1024;
  for (std::size_t i = 0; mapping_->schedule->staged && i < analysis_.instr_count(); ++i) {
    if (!is_preloaded(i) || !can_stage(analysis_, *mapping_->schedule, i)) continue;
    const auto& access = analysis_.access(analysis_.instr(i).access);
    const std::size_t bytes = size_of(analysis_.buffer_type(access.buffer)) *
                              static_cast<std::size_t>(vector() * mapping_->schedule->unroll *
                                                       mapping_->schedule->threads());
    if (bytes > room) continue;
    room -= bytes;
    staged_[i] = true;
  }
}

void BodyWriter::declare_shared() {
  if (mapping_->turned) declare_tiles();
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i)
    if (is_staged(i))
      code_.line(
          fmt::format("__shared__ Vec<{}, {}> r{}{}[{}];", buffer_type_name(i), vector(), i,
                      mapping_->unrolled() ? fmt::format("[{}]", mapping_->schedule->unroll) : "",
                      mapping_->schedule->threads()));
  if (mapping_->scratch == 0) return;
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i)
    if (live(i) && (analysis_.instr(i).kind == InstrKind::Reduce ||
                    analysis_.instr(i).kind == InstrKind::Scan))
      code_.line(fmt::format("__shared__ {} s{}[{}];", compute_name(analysis_.type_of(i)), i,
                             mapping_->scratch));
}

/// Scratch in dynamic shared memory, which blocks of a cluster have at the same place.
void BodyWriter::declare_scratch() {
  std::uint32_t offset = mapping_->scratch_offset;
  const bool sends = mapping_->reduce == "reduce_cluster";
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i) {
    if (!live(i) || analysis_.instr(i).kind != InstrKind::Reduce) continue;
    code_.line(fmt::format("{0}* const s{1} = reinterpret_cast<{0}*>(shared + {2});",
                           compute_name(analysis_.type_of(i)), i, offset));
    if (sends)
      code_.line(fmt::format("expect_results<{}>(s{});", mapping_->reduce_sizes.substr(2), i));
    offset += static_cast<std::uint32_t>(mapping_->scratch) * ThreadMapping::kScratchValue;
  }
  if (sends) code_.line("cluster_arrive();");
}

void BodyWriter::declare_pointers(int stage) {
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i) {
    const auto& instr = analysis_.instr(i);
    if (!plan::is_memory(instr.kind) || !live(i) || !in_loop(i) || mapping_->product_read(i) ||
        !pointers_[instr.access].empty())
      continue;
    const auto& access = analysis_.access(instr.access);
    int ready = 0;
    for (const auto& gather : access.gathers)
      if (!in_loop(gather.value())) ready = std::max(ready, analysis_.value(gather.value()).stage);
    if (ready == stage) declare_pointer(i);
  }
}

void BodyWriter::declare_pointer(std::size_t i) {
  const std::uint32_t a = analysis_.instr(i).access;
  const auto& access = analysis_.access(a);
  const std::string& buffer = args_.buffer(access.buffer);
  const std::string start = index_.address(access, mapping_->thread_dims, true);
  pointers_[a] = start.empty() ? buffer : fmt::format("p{}", a);
  if (!start.empty())
    code_.declare(fmt::format("{}{}* p{} = {}{};",
                              analysis_.is_written(access.buffer) ? "" : "const ",
                              buffer_type_name(i), a, buffer, start));
}

void BodyWriter::thread_values(int stage) {
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i) {
    const auto& instr = analysis_.instr(i);
    if (!live(i) || in_loop(i) || analysis_.value(i).stage != stage ||
        instr.kind == InstrKind::Reduce)
      continue;
    if (plan::is_store(instr.kind)) {
      store_scalar(i);
    } else {
      statement(i);
    }
  }
  declare_pointers(stage);
}

void BodyWriter::preload() {
  std::vector<std::size_t> loads;
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i)
    if (is_preloaded(i) && !is_passes_ahead(i)) loads.push_back(i);
  if (loads.empty()) return;
  // Declared and loaded in one line where nothing stands between.
  const bool direct = !mapping_->unrolled() && mapping_->predicate.empty();
  const std::string n = mapping_->unrolled() ? fmt::format("[{}]", mapping_->schedule->unroll) : "";
  const std::string k = mapping_->unrolled() ? "[k]" : "";
  std::vector<std::size_t> single;
  bool any_staged = false;
  for (std::size_t i : loads) {
    const std::string type = buffer_type_name(i);
    any_staged = any_staged || is_staged(i);
    if (is_staged(i)) continue;
    if (is_vector(i) && !direct)
      code_.line(fmt::format("Vec<{}, {}> r{}{};", type, vector(), i, n));
    else if (!is_vector(i) && (vector() > 1 || !direct))
      code_.line(fmt::format("{} r{}{}{};", type, i, n,
                             vector() > 1 ? fmt::format("[{}]", vector()) : ""));
  }
  open_vectors();
  for (std::size_t i : loads) {
    if (is_staged(i)) {
      const std::uint32_t access = analysis_.instr(i).access;
      code_.line(fmt::format("copy_async(&r{}{}, {}{});", i, raw_subscript(i), pointers_[access],
                             loop_address(access)));
    } else if (!is_vector(i) && vector() > 1) {
      single.push_back(i);
    } else if (direct) {
      const bool held = is_vector(i) && mapping_->schedule->lean;  // and forgotten: not constant
      code_.line(fmt::format("{}{} r{} = {};", held ? "" : "const ",
                             is_vector(i)
                                 ? fmt::format("Vec<{}, {}>", buffer_type_name(i), vector())
                                 : buffer_type_name(i),
                             i, raw_expression(i, is_vector(i))));
    } else {
      code_.line(fmt::format("r{}{} = {};", i, k, raw_expression(i, is_vector(i))));
    }
  }
  if (!single.empty()) {
    open_elements();
    for (std::size_t i : single)
      code_.line(fmt::format("r{}{} = {};", i, keep_subscript_, raw_expression(i, false)));
    close_elements();
  }
  close_vectors();
  if (any_staged) code_.line("wait_for_copies();");
  if (mapping_->schedule->lean && holds_all()) code_.line("const u32 zero = unknown_zero();");
}

/// Which of a preloaded load's vectors the loop is at.
std::string BodyWriter::raw_subscript(std::size_t i) const {
  return std::string(is_passes_ahead(i) ? "[pass]" : "") +
         (mapping_->unrolled() || grouped_[i] ? "[k]" : "") +
         std::string(is_staged(i) ? "[threadIdx.x]" : "");
}

BodyWriter::InstrSet BodyWriter::needed_in(int stage) const {
  InstrSet needed(analysis_.instr_count(), false);
  for (std::size_t i = analysis_.instr_count(); i-- > 0;) {
    const auto& instr = analysis_.instr(i);
    const ValueInfo& info = analysis_.value(i);
    if (!live(i)) continue;
    const bool reduces = accumulates_in(i, stage);
    const bool stores =
        plan::is_store(instr.kind) && in_loop(i) && info.stage == stage && !is_row_vector(i);
    const bool keeps = kept_[i] && !is_row_vector(i) && info.stage == stage;
    if (reduces || stores || keeps) needed[i] = true;
    if (!needed[i]) continue;
    const auto need = [&](std::uint32_t v) {
      if (in_loop(v) && !is_row_vector(v) && !(kept_[v] && analysis_.value(v).stage < stage))
        needed[v] = true;
    };
    const auto& operands = math_.operands(i);
    std::for_each(operands.begin(), operands.end(), need);
    if ((instr.kind == InstrKind::Load && !is_preloaded(i)) || plan::is_store(instr.kind))
      for (const auto& gather : analysis_.access(instr.access).gathers) need(gather.value());
  }
  return needed;
}

void BodyWriter::pass(int stage) {
  const InstrSet needed = needed_in(stage);
  if (std::find(needed.begin(), needed.end(), true) == needed.end()) return;
  declare_results(needed, stage);
  walk(needed, stage);
  if (!mapping_->tail) return;
  const ThreadMapping* whole = mapping_;
  mapping_ = whole->tail.get();
  walk(needed, stage);
  mapping_ = whole;
}

void BodyWriter::walk(const InstrSet& needed, int stage) {
  hold_all(needed, stage);
  code_.open(mapping_->group_header);
  load_group(needed);
  open_vectors();
  vector_part(needed, stage);
  element_part(needed, stage);
  vector_stores(needed);
  close_vectors();
  grouped_.assign(grouped_.size(), false);
  code_.close();
}

/// Lean: what passes compute from a vector is computed anew, not held in registers.
bool BodyWriter::is_held(std::size_t i, int stage) const {
  return mapping_->schedule->lean && stage > 0 && analysis_.instr(i).kind == InstrKind::Load &&
         is_vector(i) && is_preloaded(i) && !is_staged(i);
}

/// Passes of a warp have no barrier between them: its vectors are held all at once.
void BodyWriter::hold_all(const InstrSet& needed, int stage) {
  if (!holds_all()) return;
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i)
    if (needed[i] && is_held(i, stage)) code_.line(fmt::format("hold(r{}, zero);", i));
}

/// The loads of a looping thread's next vectors, before anything waits for one of them.
void BodyWriter::load_group(const InstrSet& needed) {
  if (mapping_->group_header.empty()) return;
  std::vector<std::size_t> loads;
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i)
    if (needed[i] && analysis_.instr(i).kind == InstrKind::Load && is_vector(i) && per_element(i) &&
        !gathers_by_element(i))
      loads.push_back(i);
  for (const std::size_t i : loads)
    code_.line(fmt::format("Vec<{}, {}> r{}[{}];", buffer_type_name(i), vector(), i,
                           mapping_->schedule->ahead));
  if (loads.empty()) return;
  open_vectors();
  for (const std::size_t i : loads)
    code_.line(fmt::format("r{}[k] = {};", i, raw_expression(i, true)));
  close_vectors();
  for (const std::size_t i : loads) grouped_[i] = true;
}

/// A looping thread with vectors has a result for each of their elements; what is left behind the
/// last whole vector goes to the first.
std::string BodyWriter::partial_sum(std::size_t i) const {
  if (mapping_->schedule->family == Family::kWindow)
    return fmt::format("a{}{}{}", i, mapping_->schedule->tile > 1 ? "[t]" : "",
                       vector() > 1 ? "[j]" : "");
  const bool many = (mapping_->looped() || has_row_vectors()) && vector() > 1;
  return fmt::format("a{}{}", i, many ? "[j]" : mapping_->is_tail ? "[0]" : "");
}

/// Whether pass `stage` combines elements into what a reduction or scan then is made of.
bool BodyWriter::accumulates_in(std::size_t i, int stage) const {
  const InstrKind kind = analysis_.instr(i).kind;
  return (kind == InstrKind::Reduce || kind == InstrKind::Scan) &&
         analysis_.value(i).stage == stage + 1;
}

std::string BodyWriter::identity(std::size_t i) const {
  return fmt::format("{}::identity<{}>()",
                     combine_name(static_cast<Combine>(analysis_.instr(i).op)),
                     compute_name(analysis_.type_of(i)));
}

/// What each scan has combined of the row's parts before.
void BodyWriter::declare_carries() {
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i)
    if (live(i) && analysis_.instr(i).kind == InstrKind::Scan)
      code_.line(fmt::format("{} c{} = {};", compute_name(analysis_.type_of(i)), i, identity(i)));
}

void BodyWriter::declare_results(const InstrSet& needed, int stage) {
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i) {
    if (!needed[i]) continue;
    const std::string type = compute_name(analysis_.type_of(i));
    if (kept_[i] && analysis_.value(i).stage == stage)
      code_.line(
          fmt::format("{} h{}{}{};", type, i,
                      mapping_->unrolled() ? fmt::format("[{}]", mapping_->schedule->unroll) : "",
                      vector() > 1 ? fmt::format("[{}]", vector()) : ""));
    if (analysis_.instr(i).kind == InstrKind::Scan && analysis_.value(i).stage == stage)
      code_.line(fmt::format("{0} q{1} = b{1};", type, i));
    if (!accumulates_in(i, stage)) continue;
    if (has_row_vectors() ||
        (mapping_->looped() && vector() > 1)) {  // independent sums: shorter chains, smaller errors
      code_.line(fmt::format("{} a{}[{}];", type, i, vector()));
      open_elements();
      code_.line(fmt::format("a{}[j] = {};", i, identity(i)));
      close_elements();
    } else {
      code_.line(fmt::format("{} a{} = {};", type, i, identity(i)));
    }
  }
}

void BodyWriter::vector_part(const InstrSet& needed, int stage) {
  if (vector() == 1) return;
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i) {
    if (!needed[i]) continue;
    const InstrKind kind = analysis_.instr(i).kind;
    if (kind == InstrKind::Index || (!per_element(i) && in_loop(i))) {
      if (plan::is_store(kind))
        store_scalar(i);
      else
        statement(i);
    } else if (const auto* product = mapping_->product_read(i)) {
      code_.define(fmt::format("float {}[{}];", product->sums, vector()));
      code_.define(fmt::format("Tile::sum({}, {});", product->sums, product->vector));
    } else if (kind == InstrKind::Load && is_turned(i)) {
      code_.define(fmt::format("const {0}* const c{1} = m{1}.at(x, y);", buffer_type_name(i), i));
    } else if (is_staged(i)) {
      code_.define(fmt::format("const Vec<{0}, {1}> l{2} = load<{1}>(r{2}{3}.v);",
                               buffer_type_name(i), vector(), i, raw_subscript(i)));
    } else if (kind == InstrKind::Load && is_vector(i) && is_preloaded(i)) {
      if (is_held(i, stage) && !holds_all())
        code_.line(fmt::format("hold(r{}{});", i, raw_subscript(i)));
      if (is_exchanged(i))
        code_.line(fmt::format("r{0}{1} = {2}(r{0}{1});", i, raw_subscript(i), mapping_->exchange));
    } else if (kind == InstrKind::Load && is_vector(i)) {
      const std::string raw = raw_expression(i, true);
      code_.define(
          fmt::format("const Vec<{}, {}> r{} = {};", buffer_type_name(i), vector(), i,
                      is_exchanged(i) ? fmt::format("{}({})", mapping_->exchange, raw) : raw));
    } else if (kind == InstrKind::Store && (is_vector(i) || is_turned(i))) {
      const auto& access = analysis_.access(analysis_.instr(i).access);
      code_.line(fmt::format("{} t{}[{}];", compute_name(analysis_.buffer_type(access.buffer)), i,
                             vector()));
    }
  }
}

void BodyWriter::element_part(const InstrSet& needed, int stage) {
  bool any = false;
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i)
    any = any || (needed[i] && (per_element(i) || analysis_.instr(i).kind == InstrKind::Reduce));
  if (!any) return;
  open_elements();
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i) {
    const auto& instr = analysis_.instr(i);
    if (!needed[i] || !per_element(i) || accumulates_in(i, stage)) continue;
    if (!plan::is_store(instr.kind))
      statement(i);
    else if (vector() > 1 && (is_vector(i) || is_turned(i)))
      code_.line(fmt::format("t{}[j] = {};", i, stored_value(i)));
    else if (is_turned(i))
      code_.line(fmt::format("m{}.put(y, x, splat<1>(narrow<{}>({})));", i, buffer_type_name(i),
                             stored_value(i)));
    else
      store_scalar(i);
  }
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i) {
    const auto& instr = analysis_.instr(i);
    if (!needed[i] || !accumulates_in(i, stage)) continue;
    const std::string sum = partial_sum(i);
    code_.line(fmt::format("{0} = {1}::of({0}, {2});", sum,
                           combine_name(static_cast<Combine>(instr.op)), names_[instr.args[0]]));
  }
  close_elements();
}

void BodyWriter::vector_stores(const InstrSet& needed) {
  if (vector() == 1) return;
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i) {
    const auto& instr = analysis_.instr(i);
    if (!needed[i] || instr.kind != InstrKind::Store || !per_element(i)) continue;
    if (is_turned(i))
      code_.line(fmt::format("m{}.put(y, x, Pack<{}>::of(t{}));", i, buffer_type_name(i), i));
    if (!is_vector(i)) continue;
    const std::string condition = writes(i);
    const std::string live = condition.empty() ? "" : fmt::format("if ({}) ", condition);
    std::string values = fmt::format("t{}", i);
    if (!mapping_->exchange.empty()) {  // by all lanes
      const std::string type = buffer_type_name(i);
      values = fmt::format("y{}", i);
      code_.line(fmt::format("const Vec<{}, {}> {} = {}(Pack<{}>::of(t{}));", type, vector(),
                             values, mapping_->exchange, type, i));
    }
    code_.line(fmt::format("{}store({}{}, {});", live, pointers_[instr.access],
                           loop_address(instr.access), values));
  }
}

void BodyWriter::combine_reductions(int stage) {
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i) {
    const auto& instr = analysis_.instr(i);
    if (!live(i) || !accumulates_in(i, stage)) continue;
    const std::string combine = combine_name(static_cast<Combine>(instr.op));
    if (instr.kind == InstrKind::Scan) {
      code_.line(fmt::format("const {} b{} = {}<{}{}>(a{}, c{}{});",
                             compute_name(analysis_.type_of(i)), i, mapping_->scan, combine,
                             mapping_->scan_sizes, i, i,
                             mapping_->scratch > 0 ? fmt::format(", s{}", i) : ""));
      continue;
    }
    std::string sum = fmt::format("a{}", i);
    if (has_row_vectors()) {
      if (!mapping_->reduce.empty())
        code_.line(fmt::format("{}<{}{}>({}, s{});", mapping_->reduce, combine,
                               mapping_->reduce_sizes, sum, i));
      names_[i] = sum + (in_loop(i) ? "[j]" : "[0]");
      continue;
    }
    if (mapping_->looped() && vector() > 1) {
      code_.line("#pragma unroll");
      code_.line(fmt::format("for (int j = 1; j < {0}; ++j) a{1}[0] = {2}::of(a{1}[0], a{1}[j]);",
                             vector(), i, combine));
      sum += "[0]";
    }
    const std::string scratch = mapping_->scratch > 0 ? fmt::format(", s{}", i) : "";
    if (!mapping_->reduce.empty())
      sum = fmt::format("{}<{}{}>({}{}{})", mapping_->reduce, combine, mapping_->reduce_sizes, sum,
                        scratch, mapping_->reduce_tail);
    define(i, compute_name(analysis_.type_of(i)), sum);
  }
}

std::string write_body(const ProgramAnalysis& analysis, const ThreadMapping& mapping,
                       Arguments& args) {
  CodeText body(1);
  BodyWriter(analysis, args, mapping, body).write();
  return body.text();
}

std::string body_header(const ProgramAnalysis& analysis) {
  if (analysis.scans()) return "scan.cuh";
  return analysis.stages() > 0 || analysis.combines() ? "reduce.cuh" : "math.cuh";
}

}  // namespace sinter::codegen
