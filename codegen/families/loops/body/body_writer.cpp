// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/body/body_writer.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/families/loops/body/stencil_body.h"
#include "codegen/families/loops/body/window_body.h"

namespace sinter::codegen {

using plan::fb::InstrKind;

BodyWriter::BodyWriter(const ProgramAnalysis& analysis, Arguments& args,
                       const ThreadMapping& mapping, CodeText& code)
    : s_(analysis, args, mapping, code),
      out_(s_),
      loads_(s_, out_),
      reductions_(s_, out_),
      tiles_(s_, out_) {}

void BodyWriter::write() {
  if (s_.schedule().is<WindowParameters>()) return write_windows<WindowBody>();
  if (s_.schedule().is<StencilParameters>()) return write_windows<StencilBody>();
  const ThreadMapping& mapping = s_.mapping;
  const bool is_dynamic = mapping.reduction.scratch_offset != 0;
  const std::string& tile_loop = mapping.gemm.tile_loop_header;
  const PassLoop& passes = mapping.passes;
  constexpr const char* kNotUnrolled = "#pragma unroll 1";
  if (!is_dynamic) {
    tiles_.declare();
    loads_.declare_staged();
    reductions_.declare_shared();
  }
  out_.declare_all(mapping.prologue);
  if (is_dynamic) reductions_.declare_dynamic();
  reductions_.declare_carries();
  if (!tile_loop.empty()) s_.code.line(kNotUnrolled);
  s_.code.open(tile_loop);
  out_.declare_all(mapping.gemm.tile_loop_lines);
  if (!passes.header.empty()) {
    out_.declare_all(mapping.behind_preload);
    const bool has_row_loads = loads_.define_row_loads();
    loads_.declare_of_all_passes();
    // An unrolled long body would exceed the instruction cache.
    s_.code.line(passes.unroll ? "#pragma unroll" : kNotUnrolled);
    s_.code.open(passes.header);
    if (has_row_loads)  // two per pass: each completed load frees registers
      for (const char* ahead : {"pass * 2", "pass * 2 + 1"})
        s_.code.line(fmt::format("if ({0} < {1}) load_rows({0});", ahead, passes.count));
  } else {
    s_.code.open("");
  }
  out_.declare_all(passes.lines);
  if (s_.loop->header.empty()) out_.declare_all(s_.loop->lines);
  for (int stage = 0; stage <= s_.analysis.stages(); ++stage) {
    thread_values(stage);
    if (stage == 0) {
      loads_.write();
      if (passes.header.empty()) out_.declare_all(mapping.behind_preload);
      tiles_.fill();
    }
    if (s_.has_row_vectors()) row_vectors(stage);
    write_pass(stage);
    reductions_.combine(stage);
    tiles_.empty();
  }
  s_.code.close();
  s_.code.close();
  out_.declare_all(mapping.epilogue);
}

template <class Body>
void BodyWriter::write_windows() {
  out_.declare_all(s_.mapping.prologue);
  thread_values(0);
  Body windows(s_, out_);
  windows.reduce();
  thread_values(1);
  windows.store();
}

void BodyWriter::declare_pointers(int stage) {
  for (const std::size_t i : s_.live) {
    const auto& instr = s_.analysis.instr(i);
    if (!plan::is_memory(instr.kind) || !s_.in_loop(i) || s_.product(i) != nullptr ||
        !s_.pointers[instr.access].empty())
      continue;
    int ready = 0;
    for (const auto& gather : s_.analysis.access(instr.access).gathers)
      if (!s_.in_loop(gather.value()))
        ready = std::max(ready, s_.analysis.value(gather.value()).stage);
    if (ready == stage) out_.declare_pointer(i);
  }
}

void BodyWriter::thread_values(int stage) {
  for (const std::size_t i : s_.live)
    if (!s_.in_loop(i) && s_.analysis.value(i).stage == stage &&
        s_.analysis.instr(i).kind != InstrKind::Reduce)
      out_.statement(i);
  declare_pointers(stage);
}

InstrSet BodyWriter::needed_in(int stage) const {
  InstrSet needed(s_.analysis.instr_count(), false);
  for (std::size_t i = needed.size(); i-- > 0;) {
    if (!s_.is_live(i)) continue;
    const bool is_row_vector = s_.is_row_vector(i);
    const int own = s_.analysis.value(i).stage;
    const bool stores = s_.is_store(i) && s_.in_loop(i);
    if (s_.accumulates_in(i, stage) || ((stores || s_.kept[i]) && own == stage && !is_row_vector))
      needed[i] = true;
    if (!needed[i]) continue;
    const bool is_loaded = s_.is_load(i) && s_.is_preloaded(i);
    for (const std::uint32_t v : is_loaded ? s_.math.operands(i) : s_.operands(i))
      if (s_.in_loop(v) && !s_.is_row_vector(v) &&
          !(s_.kept[v] && s_.analysis.value(v).stage < stage))
        needed[v] = true;
  }
  return needed;
}

void BodyWriter::write_pass(int stage) {
  const InstrSet needed = needed_in(stage);
  if (members(needed).empty()) return;
  reductions_.declare_results(needed, stage);
  const auto walk = [&] {
    loads_.hold_all(needed, stage);
    s_.code.open(s_.loop->group_header);
    loads_.write_group(needed);
    out_.open_vectors();
    out_.write(needed, stage);
    out_.close_vectors();
    loads_.end_group();
    s_.code.close();
  };
  walk();
  if (!s_.mapping.tail) return;
  s_.loop = &*s_.mapping.tail;
  walk();
  s_.loop = &s_.mapping.loop;
}

/// Values of pass `stage` that vary only across the rows of a thread's vector. Those that other
/// passes use stay in registers.
void BodyWriter::row_vectors(int stage) {
  InstrSet own(s_.analysis.instr_count(), false), kept = own;
  for (const std::size_t i : s_.live)
    own[i] = s_.analysis.value(i).stage == stage && s_.in_loop(i) && !s_.analysis.in_row(i) &&
             s_.analysis.instr(i).kind != InstrKind::Reduce;
  for (const std::size_t i : s_.live) {
    if (own[i]) continue;
    for (const std::uint32_t v : s_.operands(i))
      kept[v] = kept[v] || (own[v] && s_.is_row_vector(v));
  }
  out_.keep(kept, 0);
  out_.write(own, stage);
  for (const std::size_t i : members(s_.divides)) {
    if (!s_.is_row_vector(i) || s_.analysis.value(i).stage != stage) continue;
    s_.code.line(fmt::format("float d{}[{}];", i, s_.vector()));
    s_.inverses[i] = fmt::format("d{}[j]", i);
    out_.open_elements();
    s_.code.line(fmt::format("{} = {}({});", s_.inverses[i], s_.inverse_functions[i], s_.names[i]));
    out_.close_elements();
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
