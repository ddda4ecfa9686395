// SPDX-License-Identifier: Apache-2.0
// Plans from bytes: whatever they are, an Error or a plan. Hashes are mended first, so that
// mutations reach the checks behind them.
#include <cstdint>
#include <cstring>
#include <vector>

#include <sinter/error.h>

#include "runtime/plan/entries.h"
#include "runtime/plan/file_header.h"
#include "runtime/plan/hash.h"
#include "runtime/plan/plan_data.h"
#include "runtime/plan/verify/verify_plan.h"

namespace {

using sinter::plan::FileHeader;

void mend(std::vector<std::byte>& bytes) {
  if (bytes.size() < sizeof(FileHeader)) return;
  FileHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof header);
  for (auto& section : header.sections)
    if (section.offset <= bytes.size() && section.size <= bytes.size() - section.offset)
      section.hash = sinter::plan::hash64(std::span(bytes).subspan(section.offset, section.size));
  header.hash =
      sinter::plan::hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(FileHeader, hash)));
  std::memcpy(bytes.data(), &header, sizeof header);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin, begin + size);
  mend(bytes);
  try {
    const auto plan = sinter::plan::parse_plan(bytes);
    std::vector<std::int64_t> symbols;
    for (const auto& symbol : plan->meta.symbols) symbols.push_back(symbol->min);
    const auto values = sinter::plan::evaluate_expressions(plan->meta, symbols);
    const auto steps = sinter::plan::steps_of(sinter::plan::find_entry(plan->meta, symbols));
    sinter::plan::verify_bound(plan->meta, values, steps);
    sinter::plan::plan_memory(plan->meta, values, steps);
  } catch (const sinter::Error&) {
  }
  return 0;
}
