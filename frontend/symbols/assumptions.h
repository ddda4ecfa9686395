// SPDX-License-Identifier: Apache-2.0
// Assumptions about a model's inputs under which its shapes fit.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "frontend/model/import_options.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {

/// An assumption about a model's inputs.
struct Assumption {
  std::string text;    // for the user, who may choose otherwise
  std::string option;  // the equivalent command-line option
};

/// Knowledge about symbols where two sizes meet.
struct KnownSymbols {
  ir::Ranges ranges;
  std::set<std::string> leading;  // first dimensions of inputs: batch sizes
};

/// Exporters give equal dimensions different names. They also omit constraints: an image's sides
/// are multiples of 32; a cache has as many rows as a mask has columns, minus the new ones. If two
/// sizes must be equal, finds the weakest assumption that makes them equal and adds it to
/// `options`, trying in this order:
///
/// 1. two symbols are one: `state_d1` is `batch`;
/// 2. symbols stay in the ranges to which later nodes have narrowed them;
/// 3. a symbol has a minimum (from 400 samples on, two formulas for the number of windows agree) or
///    a maximum (up to 64 tokens, a window of 64 contains all of them);
/// 4. a symbol follows from the others: `total` is `past + seq`, `batch` is 2;
/// 5. a symbol is a multiple of a number;
/// 6. symbols equal one number, the least that fits: `height` and `width` are 224, where
///    floordiv(height, 16)*floordiv(width, 16) rows meet a table of 196.
///
/// A range that the user gave is never narrowed; such symbols may only become multiples. Nullopt if
/// no assumption helps.
std::optional<Assumption> assume_equal(const ir::DimMismatch& mismatch, const KnownSymbols& known,
                                       ImportOptions& options);

/// Command-line options that make the two sizes equal: those that assume_equal would find without
/// the user's ranges. Empty if nothing helps.
std::string option_for(const ir::DimMismatch& mismatch, const KnownSymbols& known);

}  // namespace sinter::frontend
