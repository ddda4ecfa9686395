// SPDX-License-Identifier: Apache-2.0
// What must hold of a model's inputs for its shapes to fit.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "frontend/model/import_options.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {

/// Something that is taken for granted of a model's inputs.
struct Assumption {
  std::string text;    // for the user, who may say otherwise
  std::string option;  // the same as an option of the command line
};

/// What an import knows of symbols where two sizes meet.
struct KnownSymbols {
  ir::Ranges ranges;
  std::set<std::string> leading;  // of inputs' first dimensions: samples of a batch
};

/// Exporters give one dimension different names, and leave unsaid that a picture's sides are
/// multiples of 32 or that a cache has as many rows as a mask has columns less the new ones. Where
/// two sizes must be equal, finds the weakest assumption about symbols that makes them so and adds
/// it to `options`, trying in this order:
///
/// 1. two symbols are one: `state_d1` is `batch`;
/// 2. symbols keep to the ranges that nodes behind have narrowed them to;
/// 3. a symbol is not small (from 400 samples on, two ways to count windows give one number) or not
///    large (up to 64 tokens, a window of 64 is all of them);
/// 4. a symbol follows from the others: `total` is `past + seq`, `batch` is 2;
/// 5. a symbol is a multiple of a number;
/// 6. symbols are one number, the least that fits: `height` and `width` are 224, where
///    floordiv(height, 16)*floordiv(width, 16) rows meet a table of 196.
///
/// A symbol that the user gives a range for
/// keeps it: of such only multiples may be asked. Nothing if no such assumption helps.
std::optional<Assumption> assume_equal(const ir::DimMismatch& mismatch, const KnownSymbols& known,
                                       ImportOptions& options);

/// What the user can say so that the two sizes are equal, as options of the command line: what
/// assume_equal would, were all ranges Sinter's own. Empty if nothing helps.
std::string option_for(const ir::DimMismatch& mismatch, const KnownSymbols& known);

}  // namespace sinter::frontend
