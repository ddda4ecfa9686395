// Plans that were changed field by field, with right hashes: loaded, bound and run. Whatever they
// say, an Error or a result; an Error(kInternal) is a finding, for a check before it has a gap.
//
// Mutations know the schema (plan_fields.py): a scalar becomes an edge value or a neighbour's, a
// list longer or shorter, an optional table comes or goes, a step does another step's work.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <type_traits>
#include <vector>

#include <sinter/allocator.h>
#include <sinter/sinter.h>

#include "plan_fields.h"
#include "runtime/plan/extents.h"
#include "runtime/plan/file_header.h"
#include "runtime/plan/plan_data.h"
#include "runtime/plan/verify/verify_plan.h"
#include "runtime/plan_access.h"

namespace sinter::fuzz {
namespace {

using plan::FileHeader;

/// Walks a plan; at the sites whose numbers are `chosen`, in rising order, it changes what is
/// there.
class Mutator {
 public:
  Mutator(std::mt19937_64& random, std::vector<std::uint64_t> chosen)
      : random_(random), chosen_(std::move(chosen)) {}

  std::uint64_t sites() const { return site_; }

  template <typename T>
  void scalar(T& value) {
    if (is_here()) value = other(value);
    if constexpr (std::is_integral_v<T>) last_ = static_cast<std::int64_t>(value);
  }
  void text(std::string& value) {
    if (!is_here()) return;
    const std::string all[] = {"",         std::string(300, 'x'), "\x1b[31m",
                               "\xff\xfe", value + value,         "cpu"};
    value = all[random_() % std::size(all)];
  }
  template <typename T>
  void list(std::vector<T>& values) {
    if (is_here())
      resize(values,
             [&] { return other(values.empty() ? T{} : values[random_() % values.size()]); });
    for (T& value : values) scalar(value);
  }
  void texts(std::vector<std::string>& values) {
    if (is_here()) resize(values, [] { return std::string("more"); });
    for (std::string& value : values) text(value);
  }
  template <typename T>
  void structs(std::vector<T>& values) {
    if (is_here())
      resize(values, [&] { return values.empty() ? T{} : values[random_() % values.size()]; });
    for (T& value : values) visit(value, *this);
  }
  template <typename T>
  void tables(std::vector<std::unique_ptr<T>>& values) {
    if (is_here() && !values.empty())
      resize(values, [&] { return std::make_unique<T>(*values[random_() % values.size()]); });
    for (std::unique_ptr<T>& value : values) visit(*value, *this);
  }
  template <typename T>
  void optional(std::unique_ptr<T>& value) {
    if (is_here()) value = value ? nullptr : std::make_unique<T>();
    if (value) visit(*value, *this);
  }
  template <typename T>
  void required(std::unique_ptr<T>& value) {
    visit(*value, *this);
  }
  void choice(fb::WorkUnion& work) {
    if (is_here()) swap_work(work);
    if (!seen_ || random_() % 4 == 0) seen_ = work;
    visit(work, *this);
  }

 private:
  bool is_here() {
    const std::uint64_t site = site_++;
    if (next_ == chosen_.size() || chosen_[next_] != site) return false;
    ++next_;
    return true;
  }

  template <typename T>
  T other(T value) {
    if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(other(static_cast<std::underlying_type_t<T>>(value)));
    } else if constexpr (std::is_same_v<T, bool>) {
      return !value;
    } else if constexpr (std::is_floating_point_v<T>) {
      const T all[] = {0,
                       -1,
                       std::numeric_limits<T>::infinity(),
                       std::numeric_limits<T>::quiet_NaN(),
                       std::numeric_limits<T>::max(),
                       -value};
      return all[random_() % std::size(all)];
    } else {
      using U = std::make_unsigned_t<T>;
      const T all[] = {0,
                       1,
                       2,
                       3,
                       4,
                       7,
                       16,
                       static_cast<T>(-1),
                       static_cast<T>(-2),
                       std::numeric_limits<T>::max(),
                       std::numeric_limits<T>::min(),
                       static_cast<T>(U{1} << (8 * sizeof(T) - 2)),
                       static_cast<T>(U(value) + 1),
                       static_cast<T>(U(value) - 1),
                       static_cast<T>(U(value) * 2),
                       static_cast<T>(last_),
                       static_cast<T>(random_() % 64),
                       static_cast<T>(random_())};
      return all[random_() % std::size(all)];
    }
  }

  template <typename T, typename Make>
  void resize(std::vector<T>& values, const Make& make) {
    switch (random_() % 6) {
      case 0: values.clear(); break;
      case 1:
        if (!values.empty()) values.pop_back();
        break;
      case 2:
        if (values.size() > 1)
          std::swap(values[random_() % values.size()], values[random_() % values.size()]);
        break;
      case 3:
        for (int i = 0; i < 40; ++i) values.push_back(make());
        break;
      default:
        values.insert(values.begin() + static_cast<std::ptrdiff_t>(random_() % (values.size() + 1)),
                      make());
    }
  }

  void swap_work(fb::WorkUnion& work) {
    switch (random_() % 14) {
      case 0: work.Reset(); break;
      case 1: work.Set(fb::CopyStepT{}); break;
      case 2: work.Set(fb::SortStepT{}); break;
      case 3: work.Set(fb::TacticStepT{}); break;
      case 4: work.Set(fb::WhileStepT{}); break;
      case 5: work.Set(fb::IfStepT{}); break;
      case 6: work.Set(fb::ExtentStepT{}); break;
      case 7: work.Set(fb::SuppressionStepT{}); break;
      case 8: work.Set(fb::TreeStepT{}); break;
      case 9: work.Set(fb::HostStepT{}); break;
      case 10: work.Set(fb::SamplingStepT{}); break;
      case 11: work.Set(fb::LogprobsStepT{}); break;
      default:
        if (seen_) work = *seen_;
    }
  }

  std::mt19937_64& random_;
  std::vector<std::uint64_t> chosen_;
  std::size_t next_ = 0;
  std::uint64_t site_ = 0;
  std::int64_t last_ = 0;
  std::optional<fb::WorkUnion> seen_;
};

/// The parts of a file whose tables can be read, checked or not.
std::optional<plan::PlanParts> parts_of(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(FileHeader)) return std::nullopt;
  FileHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), sizeof header);
  const auto section = [&](plan::Section which) -> std::span<const std::byte> {
    const auto& of = header.sections[static_cast<int>(which)];
    if (of.offset > bytes.size() || of.size > bytes.size() - of.offset) return {};
    return bytes.subspan(of.offset, of.size);
  };
  const auto metadata = section(plan::Section::kMetadata);
  std::vector<std::uint8_t> aligned(metadata.size());
  if (metadata.empty()) return std::nullopt;
  std::memcpy(aligned.data(), metadata.data(), metadata.size());
  flatbuffers::Verifier verifier(aligned.data(), aligned.size());
  if (!fb::VerifyPlanBuffer(verifier)) return std::nullopt;
  const fb::Plan& root = *fb::GetPlan(aligned.data());
  try {
    plan::verify_packed_size(root, aligned.size());
  } catch (const Error&) {
    return std::nullopt;
  }
  plan::PlanParts parts;
  root.UnPackTo(&parts.meta);
  const auto add = [&](std::vector<plan::PlanParts::Piece>& pieces, plan::Section which) {
    if (const auto found = section(which); !found.empty()) pieces.emplace_back(0, found, nullptr);
  };
  add(parts.weights, plan::Section::kWeights);
  add(parts.modules, plan::Section::kModules);
  add(parts.sources, plan::Section::kSources);
  return parts;
}

/// Host memory up to a bound.
class Bounded final : public Allocator {
 public:
  void* allocate(Memory, int, std::size_t bytes, std::size_t alignment) noexcept override {
    if (bytes > (std::size_t{64} << 20)) return nullptr;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  void deallocate(void* data, Memory, int, std::size_t, std::size_t) noexcept override {
    std::free(data);
  }
};

constexpr std::int64_t kMostIterations = 100;  // of all loops of a run

/// Visits of elements and multiplications that the steps take for these sizes, roughly.
double work_of_step(const fb::StepT& step, const std::vector<std::int64_t>& values) {
  const auto product = [&](const auto& sizes) {
    double result = 1;
    // Loops around an empty one are walked, too.
    for (const auto size : sizes) result *= std::max(1.0, static_cast<double>(values[size]));
    return result;
  };
  double total = 0;
  if (const auto* loop = step.work.AsLoopStep())
    total += product(loop->program->extents) * static_cast<double>(loop->program->instrs.size());
  if (const auto* matmul = step.work.AsMatmulStep())
    total += product(std::vector{matmul->m, matmul->n, matmul->k}) * product(matmul->batch);
  if (const auto* conv = step.work.AsConvStep())
    total += product(conv->output_shape) * product(conv->weight_shape);
  if (const auto* sort = step.work.AsSortStep())
    total += 64 * product(std::vector{sort->outer, sort->length, sort->inner});
  if (const auto* sampling = step.work.AsSamplingStep())
    total += 64 * product(std::vector{sampling->rows, sampling->vocabulary});
  if (const auto* logprobs = step.work.AsLogprobsStep())
    total += 64 * product(std::vector{logprobs->rows, logprobs->vocabulary});
  if (const auto* suppression = step.work.AsSuppressionStep())
    total += 8 * product(std::vector{suppression->rows, suppression->length, suppression->length});
  if (const auto* attention = step.work.AsAttentionStep())
    total += product(std::vector{attention->rows, attention->keys}) * product(attention->batch) *
             static_cast<double>(attention->head + attention->value_head);
  return total;
}

double work_of(const fb::PlanT& meta, const std::vector<std::int64_t>& values) {
  double total = 0;
  std::size_t loop_ends = 0;
  for (std::size_t i = 0; i < meta.steps.size(); ++i) {
    const double times = i < loop_ends ? static_cast<double>(kMostIterations) : 1;
    total += times * work_of_step(*meta.steps[i], values);
    if (const auto* loop = meta.steps[i]->work.AsWhileStep())
      loop_ends = std::max(loop_ends, i + 1 + loop->steps);
  }
  return total;
}

void run_with(Session& session, std::int64_t above_min) {
  const Plan& plan = session.plan();
  const fb::PlanT& meta = PlanAccess::data(plan)->meta;
  std::vector<std::int64_t> symbols;
  for (const auto& symbol : meta.symbols)
    symbols.push_back(symbol->max - symbol->min < above_min ? symbol->max
                                                            : symbol->min + above_min);
  plan::bind_extents(meta, symbols);
  const auto values = plan::evaluate_expressions(meta, symbols);
  constexpr double kMostWork = 2e7;
  constexpr std::size_t kMostBytes = 16 << 20;
  if (!(work_of(meta, values) < kMostWork)) return;
  for (std::size_t i = 0; i < plan.inputs().size(); ++i) {
    if (plan.inputs()[i].state) continue;
    TensorView view;
    view.dtype = plan.inputs()[i].dtype;
    for (const auto expression : meta.inputs[i]->shape) view.shape.push_back(values[expression]);
    const std::size_t size = view.byte_count();
    if (size > kMostBytes) return;
    std::vector<unsigned char> bytes(size + 1);
    for (std::size_t b = 0; b < size; ++b)
      bytes[b] =
          view.dtype == DType::kBool ? b % 2 : static_cast<unsigned char>(b % 7 == 0 ? 63 : b % 3);
    view.data = bytes.data();
    session.set_input(i, view);
  }
  session.run();
  for (std::size_t i = 0; i < plan.outputs().size(); ++i) {
    const TensorView& view = session.output(i);
    const auto* bytes = static_cast<const unsigned char*>(view.data);
    unsigned sum = 0;
    for (std::size_t b = 0; b < view.byte_count(); ++b) sum += bytes[b];
    [[maybe_unused]] static volatile unsigned sink;
    sink = sum;
  }
}

void run(std::span<const std::byte> bytes) {
  try {
    const Plan plan = Plan::from_memory(bytes);
    if (plan.target() != "cpu") return;
    SessionOptions options;
    options.threads = 1;
    options.max_iterations = kMostIterations;
    options.allocator = std::make_shared<Bounded>();
    Session session(plan, options);
    run_with(session, 0);
    session.reset_state();
    run_with(session, 3);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInternal) return;
    std::fprintf(stderr, "fuzz_run: %s\n", error.what());
    std::abort();
  }
}

}  // namespace
}  // namespace sinter::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sinter::fuzz::run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  using namespace sinter::fuzz;
  auto parts = parts_of({reinterpret_cast<const std::byte*>(data), size});
  if (!parts) return size;
  std::mt19937_64 random(seed);
  Mutator counter(random, {});
  visit(parts->meta, counter);
  std::vector<std::uint64_t> chosen;
  for (std::uint64_t i = 0; i <= random() % 3; ++i) chosen.push_back(random() % counter.sites());
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  Mutator mutator(random, std::move(chosen));
  visit(parts->meta, mutator);
  const auto bytes = sinter::plan::serialize_plan(*parts);
  if (bytes.size() > max_size) return size;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
