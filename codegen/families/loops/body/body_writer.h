// The statements of a kernel, for any mapping.
#pragma once

#include <string>
#include <vector>

#include "codegen/emit/approximations.h"
#include "codegen/emit/code_text.h"
#include "codegen/emit/print_instr.h"
#include "codegen/families/loops/body/print_index.h"
#include "codegen/families/loops/body/thread_mapping.h"

namespace sinter::codegen {

/// Writes a kernel's body in passes. Pass p computes everything that has waited for exactly p
/// reductions, and reduces what pass p + 1 waits for:
///   values of the thread (per row), then a loop over the thread's vectors, within it values of the
///   vector, within it a loop over the vector's elements.
/// A scan is a reduction of the thread's own elements in the pass before, after which what comes
/// before them is known, and running values from there in its own.
/// A thread that holds its row in registers loads everything first and keeps between passes what
/// later ones use; one that loops computes again from memory in every pass.
class BodyWriter {
 public:
  BodyWriter(const ProgramAnalysis& analysis, Arguments& args, const ThreadMapping& mapping,
             CodeText& code);
  void write();

 private:
  using InstrSet = std::vector<bool>;

  bool in_loop(std::size_t i) const { return (analysis_.value(i).dims & mapping_->loop_dims) != 0; }
  bool live(std::size_t i) const { return math_.is_live(i); }
  bool per_element(std::size_t i) const;
  bool is_vector(std::size_t i) const {
    return mapping_->schedule->vector_access[analysis_.instr(i).access];
  }
  bool is_preloaded(std::size_t i) const;
  bool is_kept_in_cache(std::size_t i) const;
  bool is_staged(std::size_t i) const { return staged_[i]; }
  /// A vector load of what all rows share, as the threads compute with it.
  bool loads_exchanged(std::size_t i) const;
  /// One that threads exchange before they compute with it.
  bool is_exchanged(std::size_t i) const {
    return !mapping_->exchange.empty() && !loads_exchanged(i);
  }
  bool is_turned(std::size_t i) const {
    return mapping_->turned != nullptr && mapping_->schedule->turn.values[i];
  }
  /// Family column with vectors: a thread takes a vector of neighbouring rows.
  bool has_row_vectors() const {
    return mapping_->schedule->family == Family::kColumn && vector() > 1;
  }
  bool is_row_vector(std::size_t i) const;
  std::string raw_subscript(std::size_t i) const;
  bool is_passes_ahead(std::size_t i) const;
  void define_row_loads();
  bool gathers_by_element(std::size_t i) const;
  int vector() const { return mapping_->schedule->vector; }

  void find_staged();
  void declare_shared();
  void declare_scratch();
  void declare_pointers(int stage);
  void declare_pointer(std::size_t i);
  void thread_values(int stage);
  void preload();
  void declare_tiles();
  void fill_tiles();
  void empty_tiles();
  void row_vectors(int stage);
  void pass(int stage);
  void walk(const InstrSet& needed, int stage);
  bool is_held(std::size_t i, int stage) const;
  bool holds_all() const {
    return mapping_->schedule->threads_x <= 32 && mapping_->schedule->unroll > 2;
  }
  void hold_all(const InstrSet& needed, int stage);
  void load_group(const InstrSet& needed);
  std::string partial_sum(std::size_t i) const;
  InstrSet needed_in(int stage) const;
  void declare_results(const InstrSet& needed, int stage);
  void declare_carries();
  bool accumulates_in(std::size_t i, int stage) const;
  std::string identity(std::size_t i) const;
  void running_value(std::size_t i);
  void vector_part(const InstrSet& needed, int stage);
  void element_part(const InstrSet& needed, int stage);
  void vector_stores(const InstrSet& needed);
  void combine_reductions(int stage);

  // Family window.
  void write_windows();
  void reduce_windows();
  void store_windows();
  void keep(const InstrSet& values, std::int64_t slots);
  void walk_kept(const InstrSet& values, const std::string& subscript);
  InstrSet needed_for(const InstrSet& values) const;
  void open_tile();
  void close_tile();
  std::string kept_name(std::size_t i) const;

  void declare_all(const std::vector<std::string>& lines);
  void open_vectors();
  void close_vectors();
  void open_elements();
  void close_elements();

  void statement(std::size_t i);
  void store_scalar(std::size_t i);
  std::string writes(std::size_t i) const;
  std::string value_expression(std::size_t i) const;
  std::string raw_expression(std::size_t i, bool whole) const;
  std::string widened(std::size_t i, const std::string& raw) const;
  std::string loop_address(std::uint32_t access) const;
  std::string element(std::size_t i) const;
  std::string op_expression(std::size_t i) const;
  bool must_not_contract(std::size_t i) const;
  std::string stored_value(std::size_t i) const;
  std::string buffer_type_name(std::size_t i) const;
  void define(std::size_t i, const std::string& type, const std::string& expression);

  const ProgramAnalysis& analysis_;
  Arguments& args_;
  const ThreadMapping* mapping_;
  CodeText& code_;
  Approximations math_;
  IndexPrinter index_;
  std::vector<std::string> names_;     // text of each value where it can be used
  std::vector<std::string> inverses_;  // of values that divide elements: text of the reciprocal
  std::vector<std::string> pointers_;  // of accesses: where a thread's part of the buffer begins
  InstrSet kept_, divides_, staged_;
  InstrSet grouped_;            // loads of the group of vectors that a looping thread is at
  InstrSet uniform_;            // of all elements of a vector the same
  std::string keep_subscript_;  // "[k][j]"
  std::string slot_;            // family window: "[s]"
  InstrSet done_;               // family window: what has a name already
  bool row_loads_ = false;      // there is a function load_rows
};

/// The statements of a kernel of that mapping, and the device header that they need at least.
std::string write_body(const ProgramAnalysis& analysis, const ThreadMapping& mapping,
                       Arguments& args);
std::string body_header(const ProgramAnalysis& analysis);

}  // namespace sinter::codegen
