// SPDX-License-Identifier: Apache-2.0
#include "codegen/program/index_space.h"

#include <algorithm>

#include <sinter/error.h>

namespace sinter::codegen {

using ir::Dim, ir::DimAtom;

namespace {

bool is_index_name(std::string_view name) { return name.starts_with('$'); }

bool atom_uses_index(const DimAtom& atom) {
  if (atom.kind == DimAtom::Kind::kSymbol) return is_index_name(atom.name);
  return codegen::uses_index(atom.a) || codegen::uses_index(atom.b);
}

}  // namespace

std::string gather_symbol(std::size_t g) { return "$g" + std::to_string(g); }

bool uses_index(const Dim& dim) {
  return std::ranges::any_of(dim.terms(), [](const Dim::Term& term) {
    return std::ranges::any_of(term.factors,
                               [](const auto& atom) { return atom_uses_index(*atom); });
  });
}

std::vector<std::string> index_symbols_of(const Dim& dim) {
  std::vector<std::string> names = dim.symbols();
  std::erase_if(names, [](const std::string& name) { return !is_index_name(name); });
  return names;
}

Dim dim_of(const DimAtom& atom, const ir::Ranges& ranges) {
  switch (atom.kind) {
    case DimAtom::Kind::kSymbol: return Dim::symbol(atom.name);
    case DimAtom::Kind::kFloorDiv: return ir::floor_div(atom.a, atom.b, ranges);
    case DimAtom::Kind::kMin: return ir::min(atom.a, atom.b, ranges);
    case DimAtom::Kind::kMax: return ir::max(atom.a, atom.b, ranges);
  }
  throw Error(ErrorCode::kInternal, "unknown kind of dimension term");
}

AddressParts split_address(const Dim& address, std::span<const std::string> symbols,
                           const ir::Ranges& ranges) {
  AddressParts parts;
  parts.strides.resize(symbols.size());
  for (const Dim::Term& term : address.terms()) {
    Dim factor = term.coefficient;
    std::size_t found = symbols.size(), dependent = 0;
    for (const auto& atom : term.factors) {
      if (!atom_uses_index(*atom)) {
        factor *= dim_of(*atom, ranges);
        continue;
      }
      ++dependent;
      if (atom->kind != DimAtom::Kind::kSymbol) continue;
      found = static_cast<std::size_t>(std::ranges::find(symbols, atom->name) - symbols.begin());
    }
    if (dependent == 0) {
      parts.offset += factor;
    } else if (dependent == 1 && found < symbols.size()) {
      parts.strides[found] += factor;
    }
  }
  // The remainder makes the sum exact, whatever form the parts above have.
  parts.rest = address - parts.offset;
  for (std::size_t s = 0; s < symbols.size(); ++s)
    parts.rest = parts.rest - parts.strides[s] * Dim::symbol(symbols[s]);
  return parts;
}

std::vector<Dim> delinearize(Dim linear, const ir::Shape& shape, const ir::Ranges& ranges) {
  std::vector<Dim> index(shape.size(), Dim(0));
  std::size_t outermost = 0;
  while (outermost < shape.size() && shape[outermost] == Dim(1)) ++outermost;
  for (std::size_t d = shape.size(); d-- > outermost;) {
    if (shape[d] == Dim(1)) continue;
    if (d == outermost) {
      index[d] = linear;
      break;
    }
    const Dim quotient = ir::floor_div(linear, shape[d], ranges);
    index[d] = linear - shape[d] * quotient;
    linear = quotient;
  }
  return index;
}

LoopSpace::LoopSpace(ir::Shape shape, const std::vector<bool>& inner,
                     const ir::Ranges& graph_ranges)
    : shape_(std::move(shape)),
      inner_(inner),
      graph_ranges_(graph_ranges),
      starts_(shape_.size(), 0) {
  for (const bool row : {false, true})
    for (std::size_t d = 0; d < shape_.size(); ++d)
      if (inner_[d] == row && shape_[d] != Dim(1)) parts_.push_back({shape_[d], d});
  number();
}

void LoopSpace::number() {
  loops_.clear();
  ranges_ = graph_ranges_;
  index_.assign(shape_.size(), Dim(0));
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const Part& part = parts_[p];
    loops_.push_back({part.extent, inner_[part.source]});
    const std::string name = ir::index_symbol(static_cast<int>(p));
    ranges_.insert_or_assign(name, ir::index_range(part.extent, graph_ranges_));
    // Parts of one dimension are adjacent loops, outermost first.
    index_[part.source] = index_[part.source] * part.extent + Dim::symbol(name);
  }
  for (std::size_t d = 0; d < index_.size(); ++d) index_[d] += Dim(starts_[d]);
  if (reversed_) index_[*reversed_] = shape_[*reversed_] - Dim(1) - index_[*reversed_];
}

void LoopSpace::reverse(std::size_t d) {
  reversed_ = d;
  number();
}

void LoopSpace::restrict(std::size_t d, std::int64_t start, std::int64_t extent) {
  const auto part =
      std::ranges::find_if(parts_, [&](const Part& part) { return part.source == d; });
  if (part == parts_.end() || part->extent != shape_[d])
    throw Error(ErrorCode::kInternal, "a dimension without one whole loop cannot be restricted");
  starts_[d] = start;
  part->extent = Dim(extent);
  if (extent == 1) parts_.erase(part);
  number();
}

void LoopSpace::split(const SplitRequest& request) {
  Part& part = parts_[request.dim];
  const auto outer = ir::divide_exactly(part.extent, request.factor);
  if (!outer) throw Error(ErrorCode::kInternal, "a loop cannot be split by a non-divisor");
  const Part low{request.factor, part.source};
  part.extent = *outer;
  parts_.insert(parts_.begin() + static_cast<std::ptrdiff_t>(request.dim) + 1, low);
  number();
}

std::optional<SplitRequest> LoopSpace::find_split(const Dim& address) const {
  for (const Dim::Term& term : address.terms()) {
    for (const auto& atom : term.factors) {
      if (atom->kind == DimAtom::Kind::kSymbol || !atom_uses_index(*atom)) continue;
      // Inner expressions first: once they are linear, the outer division often is too.
      for (const Dim* nested : {&atom->a, &atom->b})
        if (auto found = find_split(*nested)) return found;
      if (atom->kind != DimAtom::Kind::kFloorDiv || uses_index(atom->b)) continue;
      for (std::size_t d = 0; d < loops_.size(); ++d) {
        const std::vector<std::string> symbols = {ir::index_symbol(static_cast<int>(d))};
        const Dim stride = split_address(atom->a, symbols, ranges_).strides[0];
        if (stride == Dim(0)) continue;
        const auto factor = ir::divide_exactly(atom->b, stride);
        if (!factor || *factor == Dim(1) || *factor == loops_[d].extent) continue;
        const auto low = ir::lower_bound(*factor, graph_ranges_);
        if (low && *low >= 1 && ir::divide_exactly(loops_[d].extent, *factor))
          return SplitRequest{d, *factor};
      }
    }
  }
  return std::nullopt;
}

}  // namespace sinter::codegen
