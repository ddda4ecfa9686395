// SPDX-License-Identifier: Apache-2.0
// Compiling a tile program: functions of one 8-bit integer become tables.
#include <map>
#include <vector>

#include "runtime/cpu/tiles/tile_compiler.h"

namespace sinter::runtime::cpu {
namespace {

using plan::fb::InstrKind;

/// Work below which a chain takes no longer than looking its results up byte by byte.
constexpr int kLeastWork = 6;

bool is_byte(DType type) { return type == DType::kInt8 || type == DType::kUInt8; }

}  // namespace

/// The one load of 8-bit integers that decides value `i`, and the operators between, which are
/// marked in `between`; nullopt if there are other sources.
std::optional<std::uint32_t> TileCompiler::byte_of(std::size_t i,
                                                   std::vector<bool>& between) const {
  std::optional<std::uint32_t> source;
  std::vector<std::size_t> open{i};
  while (!open.empty()) {
    const std::size_t value = open.back();
    open.pop_back();
    const plan::fb::InstrT& instr = *program_.instrs[value];
    if (between[value]) continue;
    if (class_[value] == ValueClass::kUniform || instr.kind == InstrKind::Op) {
      between[value] = true;
      open.insert(open.end(), instr.args.begin(), instr.args.end());
      continue;
    }
    const auto found = static_cast<std::uint32_t>(value);
    if (instr.kind != InstrKind::Load || !is_byte(out_.types_[value]) ||
        (source && *source != found))
      return std::nullopt;
    source = found;
  }
  return source;
}

void TileCompiler::find_tables() {
  byte_source_.assign(count_, TileInstr::kNone);
  in_table_.assign(count_, false);
  for (std::size_t i = count_; i-- > 0;) {
    if (program_.instrs[i]->kind != InstrKind::Op || !is_byte(out_.types_[i]) || in_table_[i])
      continue;
    std::vector<bool> between(count_, false);
    const auto source = byte_of(i, between);
    if (!source) continue;
    int work = 0;
    for (std::size_t k = 0; k <= i; ++k)
      if (between[k] && class_[k] != ValueClass::kUniform)
        work += work_of(static_cast<ScalarOp>(program_.instrs[k]->op));
    if (work < kLeastWork) continue;
    byte_source_[i] = *source;
    for (std::size_t k = 0; k <= i; ++k) in_table_[k] = in_table_[k] || between[k];
  }
}

/// Requires the values of uniforms.
void TileCompiler::evaluate_tables() {
  constexpr std::int64_t kBytes = 256;
  for (std::size_t i = 0; i < count_; ++i) {
    if (byte_source_[i] == TileInstr::kNone || !needed_[i]) continue;
    std::vector<bool> between(count_, false);
    const std::uint32_t source = *byte_of(i, between);
    std::map<std::size_t, std::vector<std::uint64_t>> values;  // 8 bytes hold one of any type
    ByteTable all;
    for (std::size_t k = 0; k < all.size(); ++k) all[k] = static_cast<std::uint8_t>(k);
    const auto view_of = [&](std::uint32_t value) -> View {
      if (value == source) return {all.data(), kBytes, true};
      if (class_[value] == ValueClass::kUniform) return out_.uniforms_[value];
      return {values.at(value).data(), kBytes, true};
    };
    for (std::size_t k = 0; k <= i; ++k) {
      if (!between[k] || class_[k] == ValueClass::kUniform) continue;
      const TileInstr op = translate_op(k);
      auto& result = values[k];
      result.resize(kBytes);
      OpArgs args{1, kBytes, result.data(), kBytes, {}};
      for (std::uint32_t a = 0; a < op.arg_count; ++a) args.args[a] = view_of(op.args[a]);
      op.kernel(args);
    }
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.at(i).data());
    std::copy_n(bytes, kBytes, out_.tables_.at(static_cast<std::uint32_t>(i)).begin());
  }
}

}  // namespace sinter::runtime::cpu
