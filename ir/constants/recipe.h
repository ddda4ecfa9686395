// SPDX-License-Identifier: Apache-2.0
// How constants derive from a model's own, so that they can be derived again from others (refit).
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/attributes.h"
#include "ir/tensor.h"

namespace sinter::ir {

/// Whether a Transform or Derivation accepts these attributes and inputs; must not read values.
/// Throws for missing attributes. The compiler applies only accepted ones, but a file may contain
/// anything.
using Fits = bool (*)(const Attrs& attrs, std::span<const Tensor> inputs);

/// A pure function from attributes and constants to constants: what the compiler does with
/// constants besides evaluating operators of the IR.
struct Transform {
  std::string_view name;  // distinct from operators' names
  Fits fits;
  std::vector<Tensor> (*apply)(const Attrs& attrs, std::span<const Tensor> inputs);
  /// Bit i: result i only influences a decision, and is not stored.
  unsigned answers = 0;
};

/// The same for one large constant that is recomputed at each read.
struct Derivation {
  std::string_view name;
  Fits fits;
  std::pair<DType, Ints> (*type)(const Attrs& attrs, std::span<const Tensor> inputs);
  std::vector<std::byte> (*make)(const Attrs& attrs, std::span<const Tensor> inputs);
};

class ReadLog;

/// Applies one operator, Transform or Derivation to other constants.
using Again =
    std::function<std::vector<Tensor>(const Attrs& attrs, std::span<const Tensor> inputs)>;

/// An application of an operator, a Transform or a Derivation.
struct Call {
  std::string name;
  Attrs attrs;
  std::vector<Tensor> inputs;  // at least one has a recipe
  Again again;
};

/// The origin of a buffer's bytes: a tensor of the model, or an output of a call.
class Recipe {
 public:
  std::shared_ptr<const Call> call;  // null for a tensor of the model
  std::size_t output = 0;            // index of the call's output
  std::string source;                // name of the tensor in the model
  TensorType source_type;
  std::weak_ptr<ReadLog> log;
  /// Ranks have other bytes in its place (ir/ranks/rank_parts.h).
  bool differs_by_rank = false;
};

/// Whether ranks have other bytes in the place of a tensor. Such a one is equal to no tensor that
/// they share, whatever rank 0's bytes are.
bool differs_by_rank(const Tensor& tensor);

/// Facts about values of traced constants that influenced a compilation. Its result is valid only
/// for constants with the same facts.
class ReadLog {
 public:
  struct Read {
    std::shared_ptr<const Recipe> recipe;
    std::shared_ptr<const Buffer> plain;
    std::string reader;  // activity of the thread (ReadScope)
  };
  struct Equal {
    std::shared_ptr<const Recipe> a, b;
  };

  /// Registers `name`, one of the model's constants.
  void add_source(std::string name);
  void add(Read read);
  void add(Equal equal);
  std::set<std::string> sources() const;
  std::vector<Read> reads() const;
  std::vector<Equal> equals() const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string> sources_;
  std::vector<Read> reads_;
  std::vector<Equal> equals_;
};

/// The thread's activity during its lifetime, for the log: "the pass simplify".
class ReadScope {
 public:
  explicit ReadScope(std::string what);
  ~ReadScope();
  ReadScope(const ReadScope&) = delete;
  ReadScope& operator=(const ReadScope&) = delete;

 private:
  std::string saved_;
};

/// Logs a read of `tensor`, if it is traced: its type may be an answer too.
void note_read(const Tensor& tensor);
/// `tensor`, traced as the model's tensor `name`; `log` records its readers. `differs_by_rank`: of
/// what is made of it.
Tensor model_tensor(const Tensor& tensor, std::string name, const std::shared_ptr<ReadLog>& log,
                    bool differs_by_rank = false);

/// The results of the application; traced if an input is.
std::vector<Tensor> apply(const Transform& transform, const Attrs& attrs,
                          std::span<const Tensor> inputs);
Tensor derive(const Derivation& derivation, const Attrs& attrs, std::span<const Tensor> inputs);

/// For Fits: checks for `count` inputs, each of `rank` dimensions (-1: any).
bool has_inputs(std::span<const Tensor> inputs, std::size_t count, int rank = -1);
/// For Fits: checks that all attributes `names` are equally long lists of numbers in 0 .. 2^26.
bool has_counts(const Attrs& attrs, std::initializer_list<std::string_view> names);

/// True if every element of `tensor` is a number of magnitude at most `limit`.
bool is_within(const Tensor& tensor, double limit);
extern const Transform kIsWithin;

/// `made`, computed from plain `inputs` by transformation `name`; traced if an input is. `again`
/// makes it of others.
std::vector<Tensor> traced(std::string_view name, const Attrs& attrs,
                           std::span<const Tensor> inputs, std::vector<Tensor> made, Again again);
std::vector<Tensor> plain(std::span<const Tensor> inputs);
bool is_traced(std::span<const Tensor> inputs);

}  // namespace sinter::ir
