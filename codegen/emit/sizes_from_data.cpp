// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/sizes_from_data.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {

void SizesFromData::add(const Dim& dim) {
  for (const auto& [symbol, buffer] : exprs_.extents_of(dim)) {
    if (std::ranges::find(extents_, symbol, &Extent::symbol) != extents_.end()) continue;
    const Dim size = Dim::symbol(symbol);
    extents_.push_back({symbol, buffer, {}, {}});
    Extent& extent = extents_.back();
    extent.least = int_literal(ir::lower_bound(size, exprs_.ranges()).value_or(0));
    extent.most = known_(ir::largest(size, exprs_.ranges()));
  }
  // Its other symbols become parameters now, as none can be added later.
  for (const std::string& symbol : dim.symbols())
    if (exprs_.extents_of(Dim::symbol(symbol)).empty()) known_(Dim::symbol(symbol));
}

std::string SizesFromData::text(const ir::DimAtom& atom) const {
  using Kind = ir::DimAtom::Kind;
  const auto call = [&](const char* function) {
    return fmt::format("{}({}, {})", function, text(atom.a), text(atom.b));
  };
  switch (atom.kind) {
    case Kind::kSymbol: break;
    case Kind::kFloorDiv: return call("floor_quotient<i64>");
    case Kind::kMin: return call("min_size");
    case Kind::kMax: return call("max_size");
  }
  const auto extent = std::ranges::find(extents_, atom.name, &Extent::symbol);
  if (extent != extents_.end()) return fmt::format("size{}", extent - extents_.begin());
  return fmt::format("i64({})", known_(Dim::symbol(atom.name)));
}

std::string SizesFromData::text(const Dim& dim) const {
  std::string sum;
  for (const Dim::Term& term : dim.terms()) {
    std::string product;
    if (term.coefficient != 1 || term.factors.empty()) product = int_literal(term.coefficient);
    for (const auto& factor : term.factors)
      product += (product.empty() ? "" : " * ") + text(*factor);
    sum += (sum.empty() ? "" : " + ") + product;
  }
  if (sum.empty()) return "0";
  return dim.terms().size() > 1 ? "(" + sum + ")" : sum;
}

std::vector<std::string> SizesFromData::parameters() const {
  std::vector<std::string> all;
  for (std::size_t e = 0; e < extents_.size(); ++e)
    all.push_back(fmt::format("const i64* __restrict__ extent{} /* {} */", e,
                              comment_text(extents_[e].symbol)));
  return all;
}

std::vector<KernelArg> SizesFromData::args() const {
  std::vector<KernelArg> all;
  for (const Extent& extent : extents_) all.emplace_back(ArgKind::Buffer, extent.buffer);
  return all;
}

std::string SizesFromData::lines() const {
  std::string text;
  for (std::size_t e = 0; e < extents_.size(); ++e)
    text += fmt::format("  const i64 size{0} = min_size(max_size(*extent{0}, {1}), {2});\n", e,
                        extents_[e].least, extents_[e].most);
  return text;
}

std::string SizesFromData::end_of_blocks(const Dim& blocks, const std::string& block) {
  if (!ir::is_from_data({&blocks, 1}, exprs_.ranges())) return "";
  add(blocks);
  return fmt::format("  if ({} >= {}) return;\n", block, text(blocks));
}

}  // namespace sinter::codegen
