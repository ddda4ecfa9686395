// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/body/statement_writer.h"

#include <algorithm>

#include <fmt/format.h>

namespace sinter::codegen {

using plan::fb::InstrKind;

void StatementWriter::declare_all(const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    if (line.starts_with("const "))
      code_.declare(line);
    else
      code_.line(line);
}

void StatementWriter::open_vectors() {
  const VectorLoop& loop = *s_.loop;
  if (!loop.header.empty() && (loop.unrolled() || !loop.group_header.empty()))
    code_.line("#pragma unroll");
  code_.open(loop.header);
  if (!loop.header.empty()) declare_all(loop.lines);
  code_.open(loop.predicate.empty() ? "" : fmt::format("if ({})", loop.predicate));
}

void StatementWriter::close_vectors() {
  code_.close();
  code_.close();
}

void StatementWriter::open_elements() {
  if (s_.vector() == 1) return code_.open("");
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", s_.vector()));
  const auto dim = static_cast<std::size_t>(s_.schedule().vector_dim);
  s_.index.set_index(dim, fmt::format("(i{} + j)", dim));
}

void StatementWriter::close_elements() {
  code_.close();
  if (s_.vector() == 1) return;
  const auto dim = static_cast<std::size_t>(s_.schedule().vector_dim);
  s_.index.set_index(dim, fmt::format("i{}", dim));
}

void StatementWriter::define(std::size_t i, const std::string& expression) {
  code_.define(fmt::format("const {} v{} = {};", text.type(i), i, expression));
  s_.names[i] = fmt::format("v{}", i);
  if (!s_.divides[i]) return;
  code_.define(fmt::format("const float d{0} = {1}(v{0});", i, s_.inverse_functions[i]));
  s_.inverses[i] = fmt::format("d{}", i);
}

void StatementWriter::declare_pointer(std::size_t i) {
  const std::uint32_t a = s_.analysis.instr(i).access;
  const auto& access = s_.analysis.access(a);
  const std::string& buffer = s_.args.buffer(access.buffer);
  const std::string start = s_.index.address(access, s_.mapping.thread_dims, true);
  s_.pointers[a] = start.empty() ? buffer : fmt::format("p{}", a);
  if (start.empty()) return;
  code_.declare(s_.args.is_summand(access.buffer)
                    ? fmt::format("const auto p{} = {}{};", a, buffer, start)
                    : fmt::format("{}{}* p{} = {}{};",
                                  s_.analysis.is_written(access.buffer) ? "" : "const ",
                                  text.memory_type(i), a, buffer, start));
}

/// The scan's value at the current element; q is the result so far.
void StatementWriter::running_value(std::size_t i) {
  const auto& instr = s_.analysis.instr(i);
  const std::string step =
      fmt::format("q{0} = {1}::of(q{0}, {2});", i, text.combine(i), s_.names[instr.args[0]]);
  if (!instr.exclusive) code_.line(step);
  if (s_.kept[i]) {
    s_.names[i] = fmt::format("h{}{}", i, s_.keep_subscript);
    code_.line(fmt::format("{} = q{};", s_.names[i], i));
  } else {
    define(i, fmt::format("q{}", i));
  }
  if (instr.exclusive) code_.line(step);
}

void StatementWriter::statement(std::size_t i) {
  const InstrKind kind = s_.analysis.instr(i).kind;
  if (plan::is_store(kind)) return store_scalar(i);
  if (kind == InstrKind::Scan) return running_value(i);
  const std::string expression = text.value(i);
  if (kind == InstrKind::Constant || kind == InstrKind::Index || kind == InstrKind::Size) {
    s_.names[i] = expression;
  } else if (s_.kept[i]) {
    s_.names[i] = text.kept_name(i);
    code_.line(fmt::format("{} = {};", s_.names[i], expression));
  } else {
    define(i, expression);
  }
}

std::string StatementWriter::store_condition(std::size_t i) const {
  std::string condition = text.writes(i);
  const auto& instr = s_.analysis.instr(i);
  if (instr.kind != InstrKind::Scatter) return condition;
  const std::string inside = s_.index.gathered_inside(s_.analysis.access(instr.access));
  if (!inside.empty()) condition += (condition.empty() ? "" : " && ") + inside;
  return condition;
}

void StatementWriter::store_scalar(std::size_t i) {
  const std::string condition = store_condition(i);
  const auto& instr = s_.analysis.instr(i);
  std::string value = text.stored(i);
  if (instr.kind == InstrKind::Scatter && instr.op != plan::kScatterReplaces)
    value = fmt::format("{}::of(widen({}), {})", text.combine(i), text.element(i), value);
  code_.line(fmt::format("{}{} = {};", condition.empty() ? "" : fmt::format("if ({}) ", condition),
                         text.element(i), text.narrowed(i, value)));
}

void StatementWriter::keep(const InstrSet& values, std::int64_t slots) {
  for (const std::size_t i : members(values)) {
    s_.kept[i] = true;
    code_.line(fmt::format("{} h{}{}{};", text.type(i), i,
                           slots > 0 ? fmt::format("[{}]", slots) : "",
                           s_.per_element(i) ? text.elements_size() : ""));
  }
}

void StatementWriter::load_vectors(const std::vector<std::size_t>& loads,
                                   const std::string& subscript) {
  open_vectors();
  for (const std::size_t i : loads)
    code_.line(fmt::format("r{}{} = {};", i, subscript, text.load(i, true)));
  close_vectors();
}

void StatementWriter::write(const InstrSet& needed, int stage) {
  vector_part(needed, stage);
  element_part(needed, stage);
  vector_stores(needed);
}

void StatementWriter::vector_part(const InstrSet& needed, int stage) {
  if (s_.vector() == 1) return;
  for (const std::size_t i : members(needed)) {
    const InstrKind kind = s_.analysis.instr(i).kind;
    const bool is_load = kind == InstrKind::Load;
    if (kind == InstrKind::Index || (!s_.per_element(i) && s_.in_loop(i))) {
      statement(i);
    } else if (const auto* product = s_.product(i)) {
      code_.define(fmt::format("{} {}[{}];", text.type(i), product->sums, s_.vector()));
      code_.define(fmt::format("Tile::sum({}, {});", product->sums, product->vector));
    } else if (is_load && s_.is_transposed(i)) {
      code_.define(fmt::format("const {0}* const c{1} = m{1}.at(x, y);", text.memory_type(i), i));
    } else if (s_.staged[i]) {
      code_.define(fmt::format("const {} l{} = load<{}>(r{}{}.v);", text.vector_type(i), i,
                               s_.vector(), i, text.raw_subscript(i)));
    } else if (is_load && s_.is_vector(i) && s_.is_preloaded(i)) {
      const std::string raw = fmt::format("r{}{}", i, text.raw_subscript(i));
      if (s_.is_held(i, stage) && !s_.holds_all()) code_.line(fmt::format("hold({});", raw));
      if (s_.is_exchanged(i))
        code_.line(fmt::format("{0} = {1}({0});", raw, s_.mapping.gemm.exchange));
    } else if (is_load && s_.is_vector(i)) {
      const std::string raw = text.load(i, true);
      code_.define(fmt::format(
          "const {} r{} = {};", text.vector_type(i), i,
          s_.is_exchanged(i) ? fmt::format("{}({})", s_.mapping.gemm.exchange, raw) : raw));
    } else if (s_.is_store(i) && (s_.is_vector(i) || s_.is_transposed(i))) {
      code_.line(
          fmt::format("{} t{}[{}];", compute_name(s_.analysis.memory_type(i)), i, s_.vector()));
    }
  }
}

void StatementWriter::element_loop(std::span<const std::size_t> values,
                                   std::span<const std::size_t> sums, const InstrSet& read_later) {
  for (const std::size_t i : values)
    if (read_later[i] && !s_.kept[i])
      code_.line(fmt::format("{} v{}[{}];", text.type(i), i, s_.vector()));
  open_elements();
  for (const std::size_t i : values) {
    const bool is_store = s_.is_store(i);
    if (is_store && s_.vector() > 1 && (s_.is_vector(i) || s_.is_transposed(i))) {
      code_.line(fmt::format("t{}[j] = {};", i, text.stored(i)));
    } else if (is_store && s_.is_transposed(i)) {
      code_.line(fmt::format("m{}.put(y, x, splat<1>({}));", i, text.narrowed(i, text.stored(i))));
    } else if (read_later[i] && !s_.kept[i]) {
      code_.line(fmt::format("v{}[j] = {};", i, text.value(i)));
      s_.names[i] = fmt::format("v{}[j]", i);
    } else {
      statement(i);
    }
  }
  for (const std::size_t i : sums)
    code_.line(fmt::format("{0} = {1}::of({0}, {2});", text.partial_sum(i), text.combine(i),
                           s_.names[s_.analysis.instr(i).args[0]]));
  close_elements();
}

/// Values rounded in pairs start a new loop: the preceding one has computed their operands for a
/// whole vector.
void StatementWriter::element_part(const InstrSet& needed, int stage) {
  std::vector<std::size_t> values, sums;
  for (const std::size_t i : members(needed))
    if (s_.accumulates_in(i, stage))
      sums.push_back(i);
    else if (s_.per_element(i))
      values.push_back(i);
  if (values.empty() && sums.empty()) return;
  const InstrSet none(s_.analysis.instr_count(), false);
  std::size_t begin = 0;
  for (std::size_t at = 0; at < values.size(); ++at) {
    if (!text.is_rounded_in_pairs(values[at])) continue;
    const std::span<const std::size_t> front(values.data() + begin, at - begin);
    if (std::ranges::find(front, s_.math.operands(values[at])[0]) == front.end()) continue;
    InstrSet read_later = none;
    for (std::size_t k = at; k < values.size(); ++k)
      for (const std::uint32_t v : s_.operands(values[k])) read_later[v] = true;
    const auto rest = std::stable_partition(sums.begin(), sums.end(), [&](std::size_t sum) {
      return std::ranges::find(front, s_.analysis.instr(sum).args[0]) != front.end();
    });
    element_loop(front, {sums.begin(), rest}, read_later);
    sums.erase(sums.begin(), rest);
    begin = at;
  }
  element_loop(std::span(values).subspan(begin), sums, none);
}

void StatementWriter::vector_stores(const InstrSet& needed) {
  if (s_.vector() == 1) return;
  for (const std::size_t i : members(needed)) {
    if (!s_.is_store(i) || !s_.per_element(i)) continue;
    if (s_.is_transposed(i)) code_.line(fmt::format("m{}.put(y, x, {});", i, text.packed(i)));
    if (!s_.is_vector(i)) continue;
    const std::string condition = store_condition(i);
    std::string values = fmt::format("t{}", i);
    const bool exchanged = !s_.mapping.gemm.exchange.empty();
    if (exchanged) {  // by all lanes
      values = fmt::format("y{}", i);
      code_.line(fmt::format("const {} {} = {}({});", text.vector_type(i), values,
                             s_.mapping.gemm.exchange, text.packed(i)));
    }
    code_.line(fmt::format(
        "{}{}({}, {});", condition.empty() ? "" : fmt::format("if ({}) ", condition),
        s_.math.saturates(i) && !exchanged ? "store_saturated" : "store", text.address(i), values));
  }
}

}  // namespace sinter::codegen
