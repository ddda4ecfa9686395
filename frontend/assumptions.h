// What must hold of a model's inputs for its shapes to fit.
#pragma once

#include <optional>
#include <string>

#include "frontend/import.h"
#include "ir/dim_mismatch.h"

namespace sinter::frontend {

/// Exporters give one dimension different names, and leave unsaid that a picture's sides are
/// multiples of 32. Where two sizes must be equal, finds the least that makes them so and adds it
/// to `options`: two symbols that are one, a symbol that is a number, or one that is a multiple of one. Returns a
/// sentence about it for the user, or nothing if no such assumption helps.
std::optional<std::string> assume_equal(const ir::DimMismatch& mismatch, ImportOptions& options);

}  // namespace sinter::frontend
