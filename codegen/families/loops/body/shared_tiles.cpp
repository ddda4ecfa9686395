// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/body/shared_tiles.h"

#include <fmt/format.h>

namespace sinter::codegen {

using plan::fb::InstrKind;

void SharedTiles::declare() {
  for (const std::size_t i : s_.analysis.live()) {
    if (!s_.is_transposed(i)) continue;
    const auto& tiles = s_.schedule().as<TileTranspose>();
    int width = tiles.width, height = tiles.height, run = tiles.load_vector, vector = s_.vector();
    if (s_.is_store(i)) std::swap(width, height), std::swap(run, vector);
    s_.code.line(fmt::format("__shared__ TurnedTile<{}, {}, {}, {}, {}> m{};",
                             out_.text.memory_type(i), width, height, run, vector, i));
  }
}

std::vector<std::size_t> SharedTiles::transposed(InstrKind kind) const {
  std::vector<std::size_t> all;
  for (const std::size_t i : s_.live)
    if (s_.analysis.instr(i).kind == kind && s_.is_transposed(i)) all.push_back(i);
  return all;
}

void SharedTiles::fill() {
  const std::vector<std::size_t> loads = transposed(InstrKind::Load);
  if (loads.empty()) return;
  s_.loop = &*s_.mapping.tile_loads;
  for (const std::size_t i : loads)
    s_.code.line(fmt::format("{} r{}[{}];", out_.text.vector_type(i), i, s_.schedule().unroll));
  out_.load_vectors(loads, "[k]");
  out_.open_vectors();
  for (const std::size_t i : loads) s_.code.line(fmt::format("m{0}.put(x, y, r{0}[k]);", i));
  out_.close_vectors();
  s_.code.line("__syncthreads();");
  s_.loop = &s_.mapping.loop;
}

void SharedTiles::empty() {
  const std::vector<std::size_t> stores = transposed(InstrKind::Store);
  if (stores.empty()) return;
  s_.loop = &*s_.mapping.tile_loads;
  s_.code.line("__syncthreads();");
  out_.open_vectors();
  for (const std::size_t i : stores)
    s_.code.line(fmt::format("store({}, m{}.run(y, x));", out_.text.address(i), i));
  out_.close_vectors();
  s_.loop = &s_.mapping.loop;
}

}  // namespace sinter::codegen
