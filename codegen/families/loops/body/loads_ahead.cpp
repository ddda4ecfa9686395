// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/body/loads_ahead.h"

#include <fmt/format.h>

namespace sinter::codegen {

void LoadsAhead::declare_staged() {
  for (const std::size_t i : members(s_.staged))
    s_.code.line(fmt::format("__shared__ {} r{}{}[{}];", text_.vector_type(i), i,
                             text_.vectors_size(), s_.schedule().threads()));
}

void LoadsAhead::write() {
  std::vector<std::size_t> loads, single;
  for (const std::size_t i : s_.live)
    if (s_.is_preloaded(i) && !s_.is_passes_ahead(i) && !s_.is_of_all_passes(i)) loads.push_back(i);
  load_for_all_passes();
  if (loads.empty()) return;
  // Declares and loads in one line if nothing comes in between.
  const bool direct = !s_.loop->unrolled() && s_.loop->predicate.empty();
  const std::string n = text_.vectors_size(), k = s_.loop->unrolled() ? "[k]" : "";
  for (const std::size_t i : loads) {
    const bool is_single = !s_.is_vector(i) && s_.vector() > 1;
    if (is_single && !s_.staged[i]) single.push_back(i);
    if (s_.staged[i] || (direct && !is_single)) continue;
    s_.code.line(s_.is_vector(i) ? fmt::format("{} r{}{};", text_.vector_type(i), i, n)
                                 : fmt::format("{} r{}{}{};", text_.memory_type(i), i, n,
                                               text_.elements_size()));
  }
  out_.open_vectors();
  for (const std::size_t i : loads) {
    const bool is_vector = s_.is_vector(i);
    if (s_.staged[i]) {
      s_.code.line(
          fmt::format("copy_async(&r{}{}, {});", i, text_.raw_subscript(i), text_.address(i)));
    } else if (!is_vector && s_.vector() > 1) {
      continue;
    } else if (direct) {
      const bool held = is_vector && s_.is_lean();  // not const, as hold() modifies it
      s_.code.line(fmt::format("{}{} r{} = {};", held ? "" : "const ",
                               is_vector ? text_.vector_type(i) : text_.memory_type(i), i,
                               text_.load(i, is_vector)));
    } else {
      s_.code.line(fmt::format("r{}{} = {};", i, k, text_.load(i, is_vector)));
    }
  }
  if (!single.empty()) {
    out_.open_elements();
    for (const std::size_t i : single)
      s_.code.line(fmt::format("r{}{} = {};", i, s_.keep_subscript, text_.load(i, false)));
    out_.close_elements();
  }
  out_.close_vectors();
  if (!members(s_.staged).empty()) s_.code.line("wait_for_copies();");
  if (s_.is_lean() && s_.holds_all()) s_.code.line("const u32 zero = unknown_zero();");
}

std::vector<std::size_t> LoadsAhead::of_all_passes() const {
  std::vector<std::size_t> loads;
  for (const std::size_t i : s_.live)
    if (s_.is_of_all_passes(i)) loads.push_back(i);
  return loads;
}

void LoadsAhead::declare_of_all_passes() {
  for (const std::size_t i : of_all_passes())
    s_.code.line(fmt::format("{} r{}{};", text_.vector_type(i), i, text_.vectors_size()));
}

void LoadsAhead::load_for_all_passes() {
  const std::vector<std::size_t> loads = of_all_passes();
  if (loads.empty()) return;
  s_.code.open(fmt::format("if ({})", s_.mapping.passes.has_new_columns));
  out_.load_vectors(loads, s_.loop->unrolled() ? "[k]" : "");
  s_.code.close();
}

void LoadsAhead::write_group(const InstrSet& needed) {
  if (s_.loop->group_header.empty()) return;
  std::vector<std::size_t> loads;
  for (const std::size_t i : members(needed))
    if (s_.is_load(i) && s_.is_vector(i) && s_.per_element(i) && !s_.gathers_by_element(i))
      loads.push_back(i);
  for (const std::size_t i : loads)
    s_.code.line(
        fmt::format("{} r{}[{}];", text_.vector_type(i), i, s_.schedule().reduction().ahead));
  if (loads.empty()) return;
  out_.load_vectors(loads, "[k]");
  for (const std::size_t i : loads) s_.grouped[i] = true;
}

void LoadsAhead::hold_all(const InstrSet& needed, int stage) {
  if (!s_.holds_all()) return;
  for (const std::size_t i : members(needed))
    if (s_.is_held(i, stage)) s_.code.line(fmt::format("hold(r{}, zero);", i));
}

bool LoadsAhead::define_row_loads() {
  std::vector<std::size_t> loads;
  for (const std::size_t i : s_.live)
    if (s_.is_passes_ahead(i)) loads.push_back(i);
  if (loads.empty()) return false;
  for (const std::size_t i : loads)
    s_.code.line(fmt::format("{} r{}[{}][{}];", text_.vector_type(i), i, s_.mapping.passes.count,
                             s_.schedule().unroll));
  s_.code.open("const auto load_rows = [&](int pass)");
  out_.declare_all(s_.mapping.passes.lines);
  for (const std::size_t i : loads) out_.declare_pointer(i);
  out_.load_vectors(loads, "[pass][k]");
  s_.code.close(";");
  for (const std::size_t i : loads) s_.pointers[s_.analysis.instr(i).access].clear();
  return true;
}

}  // namespace sinter::codegen
