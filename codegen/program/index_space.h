// SPDX-License-Identifier: Apache-2.0
// Index arithmetic over loop variables. Symbols of the Dims are ir::index_symbol(d) (loop variable
// d), gather_symbol(g) (a value read from an index tensor) and the graph's own.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/affine.h"

namespace sinter::codegen {

/// "$g0", "$g1", ...
std::string gather_symbol(std::size_t g);
/// True if a loop variable or gathered index occurs anywhere in `dim`.
bool uses_index(const ir::Dim& dim);
/// The loop variables and gathered indices that occur in `dim`, sorted.
std::vector<std::string> index_symbols_of(const ir::Dim& dim);

/// The Dim equal to `atom`, rebuilt under `ranges`.
ir::Dim dim_of(const ir::DimAtom& atom, const ir::Ranges& ranges);

/// Builds `dim` as a sum of products by callbacks: `make.leaf` for factors with index symbols,
/// `make.constant` for numbers and sizes, `make.mul` and `make.add` to combine them.
template <typename Make>
auto make_sum(const ir::Dim& dim, const ir::Ranges& ranges, Make& make) {
  using Part = decltype(make.constant(dim));
  std::optional<Part> sum;
  ir::Dim plain = 0;
  for (const ir::Dim::Term& term : dim.terms()) {
    ir::Dim factor = term.coefficient;
    std::optional<Part> product;
    for (const auto& atom : term.factors) {
      const ir::Dim as_dim = dim_of(*atom, ranges);
      if (uses_index(as_dim))
        product = product ? make.mul(*product, make.leaf(*atom)) : make.leaf(*atom);
      else
        factor *= as_dim;
    }
    if (!product) {
      plain += factor;
      continue;
    }
    if (factor != ir::Dim(1)) product = make.mul(*product, make.constant(factor));
    sum = sum ? make.add(*sum, *product) : *product;
  }
  if (!sum) return make.constant(plain);
  return plain == ir::Dim(0) ? *sum : make.add(*sum, make.constant(plain));
}

/// address = offset + sum strides[s] * symbol s + rest. Offset and strides have no index symbols;
/// rest is the part that is not linear in them.
struct AddressParts {
  ir::Dim offset;
  std::vector<ir::Dim> strides;
  ir::Dim rest;
};
AddressParts split_address(const ir::Dim& address, std::span<const std::string> symbols,
                           const ir::Ranges& ranges);

/// The index of linear position `linear` of `shape`, row-major. The outermost index is not reduced:
/// positions are within the shape.
std::vector<ir::Dim> delinearize(ir::Dim linear, const ir::Shape& shape, const ir::Ranges& ranges);

/// One loop of a space: the variable index_symbol(its position).
struct LoopDim {
  ir::Dim extent;
  bool inner = false;  // belongs to the row that reductions run over
};

/// Split loop `dim` into (extent / factor, factor).
struct SplitRequest {
  std::size_t dim = 0;
  ir::Dim factor;
};

/// The loops over a shape: none for dimensions of size 1, outer loops first, then inner ones, each
/// in the shape's order. Splitting a loop keeps the value of every index.
class LoopSpace {
 public:
  /// `inner[d]`: dimension d of `shape` belongs to the row.
  LoopSpace(ir::Shape shape, const std::vector<bool>& inner, const ir::Ranges& graph_ranges);

  void split(const SplitRequest& request);
  /// Limits dimension `d`, which has one loop, to `extent` indices from `start` on. Both are within
  /// the dimension; indices remain those of the whole shape.
  void restrict(std::size_t d, std::int64_t start, std::int64_t extent);
  /// Runs the loop over dimension `d` from its end to its start.
  void reverse(std::size_t d);
  const ir::Shape& shape() const { return shape_; }
  const std::vector<LoopDim>& loops() const { return loops_; }
  /// Ranges of the graph's symbols and of the loop variables.
  const ir::Ranges& ranges() const { return ranges_; }
  /// One Dim for each dimension of shape().
  const std::vector<ir::Dim>& index() const { return index_; }
  bool is_inner(std::size_t d) const { return inner_[d]; }
  /// The dimension of shape() that a loop, or a part of it, runs over.
  std::size_t dimension_of(std::size_t loop) const { return parts_[loop].source; }

  /// A split that makes a division in `address` (from a reshape) linear, if one exists.
  std::optional<SplitRequest> find_split(const ir::Dim& address) const;

 private:
  struct Part {
    ir::Dim extent;
    std::size_t source = 0;  // dimension of shape_
  };
  void number();

  ir::Shape shape_;
  std::vector<bool> inner_;
  ir::Ranges graph_ranges_, ranges_;
  std::vector<Part> parts_;           // in loop order
  std::vector<std::int64_t> starts_;  // by dimension
  std::optional<std::size_t> reversed_;
  std::vector<LoopDim> loops_;
  std::vector<ir::Dim> index_;
};

}  // namespace sinter::codegen
