// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/body/stencil_body.h"

#include <algorithm>

#include <fmt/format.h>

namespace sinter::codegen {

using plan::fb::InstrKind;

namespace {

constexpr std::int64_t kAhead = 8;        // slots that a thread loads before it waits for one
constexpr std::int64_t kUnrolled = 1024;  // elements of a thread up to which its rows are unrolled

ThreadMapping without_vectors(const ThreadMapping& mapping) {
  ThreadMapping elements = mapping;
  Schedule& schedule = elements.loop.schedule;
  schedule.vector = 1;
  schedule.vector_dim = -1;
  schedule.vector_access.assign(schedule.vector_access.size(), false);
  return elements;
}

std::string loop(const char* index, std::int64_t extent) {
  return fmt::format("for (i32 {0} = 0; {0} < {1}; ++{0})", index, extent);
}

std::string times(std::string_view index, std::int64_t step) {
  return step == 1 ? std::string(index) : fmt::format("{} * {}", index, step);
}

}  // namespace

StencilBody::StencilBody(BodyState& state, StatementWriter& out)
    : s_(state),
      out_(out),
      own_(state.schedule().as<StencilParameters>()),
      form_(state.analysis, own_.x, own_.y, [&state](std::size_t i) { return state.operands(i); }),
      threads_y_(state.schedule().threads_y / own_.planes),
      elements_(without_vectors(state.mapping)),
      element_(state.analysis, state.args, elements_, state.code),
      element_out_(element_),
      reduces_(state.analysis.instr_count(), false),
      done_(reduces_) {
  for (const std::size_t i : s_.live) reduces_[i] = s_.analysis.instr(i).kind == InstrKind::Reduce;
}

InstrSet StencilBody::of_level(const std::vector<std::size_t>& values) const {
  InstrSet set(reduces_.size(), false);
  for (const std::size_t i : values) set[i] = true;
  return set;
}

InstrSet StencilBody::needed_for(const InstrSet& values) const {
  InstrSet needed = values;
  for (std::size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const std::uint32_t v : s_.operands(i))
      needed[v] = needed[v] || (s_.in_loop(v) && !done_[v]);
  }
  return needed;
}

StencilTile StencilBody::tile(std::size_t i) const {
  return stencil_tile(s_.analysis, form_, s_.schedule(), i);
}

std::string StencilBody::shared(std::size_t i, std::int64_t elements) const {
  return own_.planes == 1 ? fmt::format("s{}", i) : fmt::format("s{} + plane * {}", i, elements);
}

void StencilBody::declare_shared() {
  const auto declare = [&](std::size_t i, const std::string& type, std::int64_t elements) {
    s_.code.line(
        fmt::format("alignas(16) __shared__ {} s{}[{}];", type, i, own_.planes * elements));
  };
  for (const std::size_t i : form_.slots())
    declare(i, s_.is_load(i) ? out_.text.memory_type(i) : out_.text.type(i), tile(i).elements());
  for (const std::size_t i : form_.taps())
    declare(i, out_.text.type(i),
            form_.height() * tap_pitch(form_, size_of(s_.analysis.type_of(i))));
  const std::int64_t of_plane = s_.schedule().threads_x * threads_y_;
  if (own_.planes > 1) s_.code.line(fmt::format("const i32 plane = threadIdx.x / {};", of_plane));
  s_.code.line(own_.planes > 1 ? fmt::format("const i32 member = threadIdx.x % {};", of_plane)
                               : "const i32 member = threadIdx.x;");
}

/// Opens the loops over the thread's results along y and, unless they are a vector, along x.
void StencilBody::open_results(bool along_rows) {
  if (along_rows) {
    s_.code.line("#pragma unroll");
    s_.code.open(loop("t", own_.rows));
  }
  if (s_.vector() > 1) return s_.code.open("");
  s_.code.line("#pragma unroll");
  s_.code.open(loop("u", own_.columns));
}

void StencilBody::declare_sums() {
  for (const std::size_t i : members(reduces_))
    s_.code.line(fmt::format("{} a{}[{}][{}];", out_.text.type(i), i, own_.rows, own_.columns));
  open_results(true);
  out_.open_elements();
  for (const std::size_t i : members(reduces_))
    s_.code.line(fmt::format("{} = {};", out_.text.partial_sum(i), out_.text.identity(i)));
  out_.close_elements();
  s_.code.close();
  s_.code.close();
}

/// The indices of the element in slot `slot`, counted from that of result `first`: any pair with
/// the slot's sum, as shared values depend on nothing else.
void StencilBody::set_slot(const Overlap& overlap, const std::string& first,
                           const std::string& slot) {
  const auto row = static_cast<std::size_t>(overlap.tile_dim);
  if (overlap.window_dim < 0 || overlap.element_step != 1) {
    element_.index.set_index(row, fmt::format("({} + {})", first, slot));
    if (overlap.window_dim >= 0)
      element_.index.set_index(static_cast<std::size_t>(overlap.window_dim), "0");
    return;
  }
  element_.index.set_index(row, first);
  element_.index.set_index(static_cast<std::size_t>(overlap.window_dim), slot);
}

/// Whether some result reads the slot; empty if all are read. A block has `results` along it.
std::string StencilBody::slot_exists(const Overlap& overlap, const std::string& first,
                                     const std::string& slot, std::int64_t results) const {
  const ir::Dim& extent = s_.analysis.extent(overlap.tile_dim);
  if (ir::is_multiple_of(extent, results)) return "";
  const std::int64_t window =
      overlap.window_dim < 0 ? 1 : s_.analysis.extent(overlap.window_dim).value();
  const ir::Dim count = (extent - ir::Dim(1)) * ir::Dim(overlap.row_step) +
                        ir::Dim((window - 1) * overlap.element_step + 1);
  return fmt::format("{} + {} < {}", times(first, overlap.row_step), slot, s_.args.dim(count));
}

void StencilBody::fill_slots() {
  element_.names = s_.names;
  element_.inverses = s_.inverses;
  element_.pointers = s_.pointers;
  for (const std::size_t i : form_.slots()) fill_slots_of(i);
}

void StencilBody::fill_slots_of(std::size_t i) {
  const StencilTile tile = this->tile(i);
  const std::int64_t threads = s_.schedule().threads_x * threads_y_, run = tile.copied;
  const std::int64_t copies = tile.rows * tile.copies();
  const std::int64_t ahead = std::min(kAhead, (copies + threads - 1) / threads);
  const std::string type = s_.is_load(i) ? out_.text.memory_type(i) : out_.text.type(i);
  const auto place = [&] {
    s_.code.line(fmt::format("const i32 e = from + k * {};", threads));
    s_.code.declare(fmt::format("const i32 sy = i32(quotient(u32(e), u32({})));", tile.copies()));
    const std::string column = fmt::format("e - sy * {}", tile.copies());
    s_.code.declare(fmt::format("const i32 sx = {};",
                                run > 1 ? fmt::format("({}) * {}", column, run) : column));
  };
  s_.code.line("#pragma unroll 1");
  s_.code.open(
      fmt::format("for (i32 from = member; from < {}; from += {})", copies, threads * ahead));
  s_.code.line(run > 1 ? fmt::format("Vec<{}, {}> r{}[{}];", type, run, i, ahead)
                       : fmt::format("{} r{}[{}];", type, i, ahead));
  s_.code.line("#pragma unroll");
  s_.code.open(loop("k", ahead));
  place();
  const std::string slot = tile.lead > 0 ? fmt::format("(sx - {})", tile.lead) : std::string("sx");
  std::string exists = fmt::format("e < {}", copies);
  const auto also = [&](const std::string& condition) {
    if (!condition.empty()) exists += " && " + condition;
  };
  also(slot_exists(own_.x, "left", slot, s_.schedule().threads_x * own_.columns));
  if (form_.has_rows()) also(slot_exists(own_.y, "top", "sy", threads_y_ * own_.rows));
  s_.code.line(fmt::format("const bool inside = {};", exists));
  elements_.load_guard = "inside";
  set_slot(own_.x, "left", slot);
  if (form_.has_rows()) set_slot(own_.y, "top", "sy");
  InstrSet needed(reduces_.size(), false);
  if (s_.is_load(i)) {  // as it is in memory
    for (const std::uint32_t v : s_.operands(i)) needed[v] = s_.in_loop(v) && !done_[v];
  } else {
    needed[i] = true;
  }
  element_out_.write(needed_for(needed), 0);
  const auto loaded = [&] {
    return element_out_.text.load_if(i, static_cast<int>(run)) + (run > 1 ? "" : ".v[0]");
  };
  s_.code.line(fmt::format("r{}[k] = {};", i, s_.is_load(i) ? loaded() : element_.names[i]));
  s_.code.close();
  elements_.load_guard.clear();
  s_.code.line("#pragma unroll");
  s_.code.open(loop("k", ahead));
  place();
  const std::string to = fmt::format(
      "{}sy * {} + sx",
      own_.planes > 1 ? fmt::format("plane * {} + ", tile.elements()) : std::string(), tile.pitch);
  s_.code.line(run > 1 ? fmt::format("if (e < {}) store(s{} + {}, r{}[k]);", copies, i, to, i)
                       : fmt::format("if (e < {}) s{}[{}] = r{}[k];", copies, i, to, i));
  s_.code.close();
  s_.code.close();
}

void StencilBody::fill_taps() {
  if (form_.taps().empty()) return;
  const std::int64_t threads = s_.schedule().threads_x * threads_y_;
  const std::int64_t width = form_.width(), taps = width * form_.height();
  s_.code.line("#pragma unroll 1");
  s_.code.open(fmt::format("for (i32 e = member; e < {}; e += {})", taps, threads));
  s_.code.line(fmt::format("const i32 sy = i32(quotient(u32(e), u32({})));", width));
  s_.code.line(fmt::format("const i32 sx = e - sy * {};", width));
  element_.index.set_index(static_cast<std::size_t>(own_.x.window_dim), "sx");
  if (own_.y.window_dim >= 0)
    element_.index.set_index(static_cast<std::size_t>(own_.y.window_dim), "sy");
  element_out_.write(needed_for(of_level(form_.taps())), 0);
  for (const std::size_t i : form_.taps()) {
    const std::int64_t pitch = tap_pitch(form_, size_of(s_.analysis.type_of(i)));
    const std::string to =
        own_.planes > 1 ? fmt::format("plane * {} + ", form_.height() * pitch) : std::string();
    s_.code.line(fmt::format("s{}[{}sy * {} + sx] = {};", i, to, pitch, element_.names[i]));
  }
  s_.code.close();
}

/// Reads a row of slots, and reduces it for all windows that share it if that is all they do.
void StencilBody::reduce_rows() {
  const auto& schedule = s_.schedule();
  for (const std::size_t i : form_.slots()) {
    const StencilTile tile = this->tile(i);
    const bool is_load = s_.is_load(i);
    std::string from = shared(i, tile.elements());
    if (form_.has_rows()) {
      const std::string thread = threads_y_ == 1
                                     ? std::string("r")
                                     : fmt::format("(member / {} * {} + r)", schedule.threads_x,
                                                   own_.rows * own_.y.row_step);
      from += fmt::format(" + {} * {}", thread, tile.pitch);
    }
    if (schedule.threads_x > 1)
      from +=
          fmt::format(" + member % {} * {}", schedule.threads_x, own_.columns * own_.x.row_step);
    s_.code.line(fmt::format("{} h{}[{}];", out_.text.type(i), i, tile.row_slots));
    const int vector =
        is_load
            ? tile.vector
            : std::min<int>(tile.vector, 16 / static_cast<int>(size_of(s_.analysis.type_of(i))));
    s_.code.line(is_load ? fmt::format("read_slots<{}, {}>({}, h{});", vector, tile.lead, from, i)
                         : fmt::format("read_values<{}>({}, h{});", vector, from, i));
  }
  if (!form_.is_separable()) return;
  for (const std::size_t i : members(reduces_)) {
    s_.code.line(fmt::format("{} m{}[{}];", out_.text.type(i), i, own_.columns));
    s_.code.line(fmt::format("reduce_windows<{}, {}, {}, {}>(h{}, m{});", out_.text.combine(i),
                             form_.width(), own_.x.row_step, own_.x.element_step,
                             s_.analysis.instr(i).args[0], i));
  }
}

/// The thread's results that read the current row of slots.
void StencilBody::accumulate() {
  const InstrSet needed = needed_for(reduces_);
  if (form_.is_separable()) {
    open_results(false);
    out_.open_elements();
    for (const std::size_t i : members(reduces_))
      s_.code.line(fmt::format("{0} = {1}::of({0}, m{2}[{3}]);", out_.text.partial_sum(i),
                               out_.text.combine(i), i, column()));
    out_.close_elements();
    s_.code.close();
    return;
  }
  const std::string row =
      own_.y.window_dim < 0 ? std::string("0") : fmt::format("i{}", own_.y.window_dim);
  for (const std::size_t i : form_.taps()) {
    const std::size_t bytes = size_of(s_.analysis.type_of(i));
    const std::int64_t pitch = tap_pitch(form_, bytes);
    s_.code.line(fmt::format("{} w{}[{}];", out_.text.type(i), i, form_.width()));
    s_.code.line(fmt::format("read_values<{}>({}{}, w{});", tap_vector(form_, bytes),
                             shared(i, form_.height() * pitch),
                             row == "0" ? "" : fmt::format(" + {} * {}", row, pitch), i));
  }
  const std::string tap = fmt::format("i{}", own_.x.window_dim);
  s_.code.line("#pragma unroll");
  s_.code.open(loop(tap.c_str(), form_.width()));
  for (const std::size_t i : form_.taps()) s_.names[i] = fmt::format("w{}[{}]", i, tap);
  for (const std::size_t i : form_.slots())
    s_.names[i] = fmt::format("h{}[{} + {}]", i, times(column(), own_.x.row_step),
                              times(tap, own_.x.element_step));
  open_results(false);
  // Only loads for each result depend on whether it exists; others may compute it in vain.
  const auto is_loaded = [&](std::size_t i) {
    return s_.is_load(i) && form_.level(i) == StencilLevel::kElement;
  };
  const bool loads = std::ranges::any_of(members(needed), is_loaded);
  const std::string exists = loads ? results_exist() : "";
  s_.code.open(exists.empty() ? "" : fmt::format("if ({})", exists));
  set_columns(true);
  out_.write(needed, 0);
  set_columns(false);
  s_.code.close();
  s_.code.close();
  s_.code.close();
}

void StencilBody::set_columns(bool in_loop) {
  if (s_.vector() > 1) return;
  const int x = own_.x.tile_dim;
  s_.index.set_index(static_cast<std::size_t>(x),
                     in_loop ? fmt::format("(i{} + u)", x) : fmt::format("i{}", x));
}

void StencilBody::walk_rows() {
  if (!form_.has_rows()) {
    reduce_rows();
    s_.code.line("constexpr i32 t = 0;");
    return accumulate();
  }
  const Overlap& y = own_.y;
  const std::int64_t rows = y.slots(own_.rows, form_.height());
  const std::int64_t elements = form_.height() * form_.width() * own_.rows * own_.columns;
  s_.code.line(elements > kUnrolled ? "#pragma unroll 1" : "#pragma unroll");
  s_.code.open(loop("r", rows));
  reduce_rows();
  s_.code.line("#pragma unroll");
  s_.code.open(loop("t", own_.rows));
  const std::int64_t reach = (form_.height() - 1) * y.element_step + 1;
  s_.code.line(fmt::format("const i32 at = r - {};", times("t", y.row_step)));
  std::string reads = fmt::format("at >= 0 && at < {}", reach);
  if (y.element_step > 1) reads += fmt::format(" && at % {} == 0", y.element_step);
  s_.code.open(fmt::format("if ({})", reads));
  if (y.window_dim >= 0)
    s_.code.declare(fmt::format("const i32 i{} = at{};", y.window_dim,
                                y.element_step > 1 ? fmt::format(" / {}", y.element_step) : ""));
  accumulate();
  s_.code.close();
  s_.code.close();
  s_.code.close();
}

void StencilBody::reduce() {
  declare_shared();
  declare_sums();
  int opened = 0;
  for (std::size_t d = s_.analysis.outer_rank(); d < s_.analysis.rank(); ++d) {
    if ((form_.other_inner() & dim_bit(d)) == 0) continue;
    s_.code.line("#pragma unroll 1");
    s_.code.open(loop(fmt::format("i{}", d).c_str(), s_.analysis.extent(d).value()));
    ++opened;
  }
  if (opened > 0) s_.code.line("__syncthreads();");
  InstrSet outer(reduces_.size(), false);
  const InstrSet all = needed_for(reduces_);
  for (std::size_t i = 0; i < all.size(); ++i)
    outer[i] = all[i] && form_.level(i) == StencilLevel::kOuter;
  out_.write(outer, 0);
  for (const std::size_t i : members(outer)) done_[i] = true;
  fill_slots();
  fill_taps();
  s_.code.line("__syncthreads();");
  for (const std::size_t i : form_.slots()) done_[i] = true;
  for (const std::size_t i : form_.taps()) done_[i] = true;
  walk_rows();
  for (; opened > 0; --opened) s_.code.close();
  for (std::size_t i = 0; i < reduces_.size(); ++i) {
    if (reduces_[i]) s_.names[i] = out_.text.partial_sum(i);
    // Values computed in the loops are out of scope.
    done_[i] = reduces_[i] || (s_.analysis.in_row(i) && !s_.is_store(i));
  }
}

/// Whether the thread's result `index` exists; empty if all do.
std::string StencilBody::result_exists(const Overlap& overlap, std::int64_t tile,
                                       const std::string& index) const {
  if (overlap.tile_dim < 0) return "";
  const ir::Dim& extent = s_.analysis.extent(overlap.tile_dim);
  if (ir::is_multiple_of(extent, tile)) return "";
  return fmt::format("{} < {}", index, s_.args.dim(extent));
}

/// Whether the thread's current result exists, or its vector of them.
std::string StencilBody::results_exist() const {
  const int x = own_.x.tile_dim;
  std::string exists = s_.mapping.live_row;
  const auto also = [&](const std::string& condition) {
    if (!condition.empty()) exists += (exists.empty() ? "" : " && ") + condition;
  };
  also(result_exists(own_.y, threads_y_ * own_.rows, "first + t"));
  also(result_exists(own_.x, std::int64_t{s_.schedule().threads_x} * own_.columns,
                     s_.vector() > 1 ? fmt::format("i{}", x) : fmt::format("i{} + u", x)));
  return exists;
}

void StencilBody::store() {
  InstrSet stores(reduces_.size(), false);
  for (const std::size_t i : s_.live) stores[i] = s_.in_loop(i) && s_.is_store(i);
  if (members(stores).empty()) return;
  open_results(true);
  const std::string exists = results_exist();
  s_.code.open(exists.empty() ? "" : fmt::format("if ({})", exists));
  set_columns(true);
  out_.write(needed_for(stores), 1);
  set_columns(false);
  s_.code.close();
  s_.code.close();
  s_.code.close();
}

}  // namespace sinter::codegen
