#include "attention.h"

#include "exponential.h"
#include "philox.h"
#include "strips.h"

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

constexpr int64_t kScores = 64 << 10;  // of a block of queries: they stay in the second cache

// Returns how many queries are computed together.
inline int64_t choose_block(const Attention& given) {
  const int64_t keys = widen(given.num_keys);
  const int64_t wanted = kScores / (keys > 0 ? keys : kPanel) / 24 * 24;
  const int64_t bounded = wanted < 24 ? 24 : wanted > 96 ? 96 : wanted;
  return bounded < given.num_queries ? bounded : given.num_queries;
}

// One head of one example.
struct Head {
  Head(const Attention& given, int64_t unit) : unit(unit) {
    const int64_t example = unit / given.num_heads, head = unit % given.num_heads;
    queries = example * given.num_queries * given.query_step + head * given.size;
    memory = example * given.num_keys * given.memory_step + head * given.size;
    out = (example * given.num_queries * given.num_heads + head) * given.size;
    bias = example * given.bias_steps[0] + head * given.bias_steps[1];
  }

  int64_t unit;
  int64_t queries, memory, out, bias;  // where its numbers start
};

// Scores of a block of queries to their weights.
template <typename T>
class Weights {
 public:
  Weights(const Attention& given, const T* bias, int64_t block)
      : given_(given), bias_(bias), panels_(count_panels(given.num_keys)),
        shifts_(panels_ * kPanel), factors_(block * given.num_keys + kPanel) {}

  bool has_room() const { return shifts_ != nullptr && factors_ != nullptr; }

  // Reads the bias and draws the dropout of `rows` queries from `first` on.
  void start(const Head& head, int64_t first, int64_t rows) {
    if (first == 0 || given_.bias_steps[2] != 0) read_shifts(head, first);
    if (given_.draw.level_bytes == 0) return;
    const int64_t keys = given_.num_keys;
    draw_factors(given_.draw, (head.unit * given_.num_queries + first) * keys, rows * keys,
                 factors_);
    for (int c = 0; c < kPanel; ++c) factors_[rows * keys + c] = 0.0f;
  }

  // Turns a row of a strip, `rows` panels apart, into weights: exponentials and what to multiply
  // them by.
  float weigh(const Head& head, int64_t first, int64_t row, int64_t rows, float* strip) {
    if (row > 0 && given_.bias_steps[2] != 0) read_shifts(head, first + row);
    const float scale = given_.scale;
    float tops[kPanel];
    for (int c = 0; c < kPanel; ++c) tops[c] = -__builtin_inff();
    for (int64_t p = 0; p < panels_; ++p) {
      float* x = strip + (p * rows + row) * kPanel;
      const float* shift = shifts_ + p * kPanel;
#pragma GCC ivdep
      for (int c = 0; c < kPanel; ++c) {
        x[c] = x[c] * scale + shift[c];
        tops[c] = x[c] > tops[c] ? x[c] : tops[c];
      }
    }
    const float top = find_top(tops);
    float sums[kPanel] = {};
    for (int64_t p = 0; p < panels_; ++p) {
      float* x = strip + (p * rows + row) * kPanel;
#pragma GCC ivdep
      for (int c = 0; c < kPanel; ++c) {
        x[c] = exp_of_negative(x[c] - top);
        sums[c] += x[c];
      }
    }
    return 1.0f / add_up(sums);
  }

  // Returns the factors of a row's panel; null if nothing is dropped.
  const float* factors(int64_t row, int64_t panel) const {
    if (given_.draw.level_bytes == 0) return nullptr;
    return factors_ + row * given_.num_keys + panel * kPanel;
  }

 private:
  // Reads what is added to the scores of a query; beyond the last key nothing counts.
  void read_shifts(const Head& head, int64_t query) {
    const int64_t keys = given_.num_keys, step = given_.bias_steps[3];
    const T* bias = bias_ == nullptr ? nullptr : bias_ + head.bias + query * given_.bias_steps[2];
    for (int64_t k = 0; k < keys; ++k) shifts_[k] = bias == nullptr ? 0.0f : to_float(bias[k * step]);
    for (int64_t k = keys; k < panels_ * kPanel; ++k) shifts_[k] = -__builtin_inff();
  }

  const Attention& given_;
  const T* bias_;
  int64_t panels_;
  Room<float> shifts_, factors_;
};

template <typename T>
bool forward(const Attended<const T>& from, const T* bias, const Attention& given, T* mixed,
             int64_t begin, int64_t end) {
  typedef Input<T> N;
  const int64_t keys = given.num_keys, size = given.size, block = choose_block(given);
  const int64_t width = given.num_heads * size, wide = widen(keys), whole = fill_up<T>(size);
  Room<N> key_panels(wide * whole), value_panels(widen(size) * fill_up<T>(keys));
  Room<N> copied(block * whole), weights(block * wide);
  Room<float> scores(block * wide), sums(block * widen(size));
  Weights<T> kept(given, bias, block);
  const bool has_panels = key_panels != nullptr && value_panels != nullptr;
  const bool has_rows = copied != nullptr && weights != nullptr;
  if (!has_panels || !has_rows || scores == nullptr || sums == nullptr || !kept.has_room()) {
    return false;
  }
  for (int64_t unit = begin; unit < end; ++unit) {
    const Head head(given, unit);
    pack_columns(from.keys + head.memory, given.memory_step, keys, size, key_panels);
    pack_inputs(from.values + head.memory, given.memory_step, keys, size, value_panels);
    for (int64_t first = 0; first < given.num_queries; first += block) {
      const int64_t left = given.num_queries - first, rows = left < block ? left : block;
      const T* query = from.queries + head.queries + first * given.query_step;
      multiply(take_rows(query, given.query_step, rows, size, copied), rows, key_panels, size,
               keys, scores);
      kept.start(head, first, rows);
      for (int64_t row = 0; row < rows; ++row) {
        const float share = kept.weigh(head, first, row, rows, scores);
        for (int64_t p = 0; p < count_panels(keys); ++p) {
          float* x = scores + (p * rows + row) * kPanel;
          const float* factor = kept.factors(row, p);
          for (int c = 0; factor == nullptr && c < kPanel; ++c) x[c] *= share;
          for (int c = 0; factor != nullptr && c < kPanel; ++c) x[c] *= share * factor[c];
          round_panel(x, weights + row * wide + p * kPanel);
        }
      }
      multiply<T>({weights, {wide, kStep<T>}}, rows, value_panels, keys, size, sums);
      write_strip(sums, rows, size, mixed + head.out + first * width, width);
    }
  }
  return true;
}

// Two strips as the way back needs them: the weights and the gradients of scores, rounded, and side
// by side by pairs of queries.
template <typename T>
struct Slopes {
  typedef Input<T> N;

  Slopes(int64_t block, int64_t wide)
      : wide(wide), weights((block + 1) * wide), scores((block + 1) * wide),
        paired_weights((block + 1) * wide), paired_scores((block + 1) * wide) {}

  bool has_room() const {
    return weights != nullptr && scores != nullptr && paired_weights != nullptr &&
           paired_scores != nullptr;
  }

  // Puts the rows side by side.
  void pair(int64_t rows) {
    pair(rows, weights, paired_weights);
    pair(rows, scores, paired_scores);
  }

  void pair(int64_t rows, N* numbers, N* out) {
    if (rows % kStep<T> != 0) memset(numbers + rows * wide, 0, wide * sizeof(N));
    for (int64_t at = 0; at < rows * wide; at += kStep<T> * wide) {
      interleave(numbers + at, numbers + at + (kStep<T> - 1) * wide, wide, out + at);
    }
  }

  int64_t wide;
  Room<N> weights, scores, paired_weights, paired_scores;
};

// Weights and the gradients of weights of a block of queries, computed again.
template <typename T>
class Repeated {
 public:
  Repeated(const Attended<const T>& from, const T* bias, const T* upstream, const Attention& given)
      : from_(from), upstream_(upstream), given_(given), block_(choose_block(given)),
        key_columns_(widen(given.num_keys) * fill_up<T>(given.size)),
        value_columns_(widen(given.num_keys) * fill_up<T>(given.size)),
        copied_(block_ * fill_up<T>(given.size)), weights_(block_ * widen(given.num_keys)),
        slopes_(block_ * widen(given.num_keys)), kept_(given, bias, block_) {}

  bool has_room() const {
    const bool has_columns = key_columns_ != nullptr && value_columns_ != nullptr;
    const bool has_strips = copied_ != nullptr && weights_ != nullptr && slopes_ != nullptr;
    return has_columns && has_strips && kept_.has_room();
  }

  int64_t block() const { return block_; }

  // Returns how many queries there are in the block from `first` on.
  int64_t count_rows(int64_t first) const {
    const int64_t left = given_.num_queries - first;
    return left < block_ ? left : block_;
  }

  const T* query(const Head& head, int64_t first) const {
    return from_.queries + head.queries + first * given_.query_step;
  }

  const T* up(const Head& head, int64_t first) const {
    return upstream_ + head.out + first * given_.num_heads * given_.size;
  }

  void open(const Head& head) {
    const int64_t step = given_.memory_step, keys = given_.num_keys, size = given_.size;
    pack_columns(from_.keys + head.memory, step, keys, size, key_columns_);
    pack_columns(from_.values + head.memory, step, keys, size, value_columns_);
  }

  // Computes scores and gradients of weights of the block from `first` on.
  void start(const Head& head, int64_t first) {
    const int64_t keys = given_.num_keys, size = given_.size, rows = count_rows(first);
    multiply(take_rows(query(head, first), given_.query_step, rows, size, copied_), rows,
             key_columns_, size, keys, weights_);
    multiply(take_rows(up(head, first), given_.num_heads * size, rows, size, copied_), rows,
             value_columns_, size, keys, slopes_);
    kept_.start(head, first, rows);
  }

  // Calls `use(panel, weights, slopes, factors)` for each panel of a row of that block: its weights
  // before the dropout, the gradients of scores times `scale`, and what to multiply weights by, null
  // if nothing is dropped.
  template <typename Use>
  void slope_row(const Head& head, int64_t first, int64_t row, float scale, Use use) {
    const int64_t rows = count_rows(first), num_panels = count_panels(given_.num_keys);
    const float share = kept_.weigh(head, first, row, rows, weights_);
    float sums[kPanel] = {};
    for (int64_t p = 0; p < num_panels; ++p) {
      float* w = weights_ + (p * rows + row) * kPanel;
      float* s = slopes_ + (p * rows + row) * kPanel;
      const float* factor = kept_.factors(row, p);
      for (int c = 0; factor != nullptr && c < kPanel; ++c) s[c] *= factor[c];
#pragma GCC ivdep
      for (int c = 0; c < kPanel; ++c) {
        w[c] *= share;
        sums[c] += w[c] * s[c];
      }
    }
    const float mean = add_up(sums);
    for (int64_t p = 0; p < num_panels; ++p) {
      float* w = weights_ + (p * rows + row) * kPanel;
      float* s = slopes_ + (p * rows + row) * kPanel;
#pragma GCC ivdep
      for (int c = 0; c < kPanel; ++c) s[c] = w[c] * (s[c] - mean) * scale;
      use(p, w, s, kept_.factors(row, p));
    }
  }

 private:
  const Attended<const T>& from_;
  const T* upstream_;
  const Attention& given_;
  int64_t block_;
  Room<Input<T>> key_columns_, value_columns_, copied_;
  Room<float> weights_, slopes_;
  Weights<T> kept_;
};

template <typename T>
bool backward(const Attended<const T>& from, const T* bias, const T* upstream,
              const Attention& given, const Attended<T>& gradient, int64_t begin, int64_t end) {
  typedef Input<T> N;
  constexpr int64_t kPair = kStep<T>;
  const int64_t keys = given.num_keys, size = given.size, width = given.num_heads * size;
  const int64_t wide = widen(keys), wide_size = widen(size);
  Repeated<T> again(from, bias, upstream, given);
  const int64_t block = again.block();
  Room<N> key_panels(wide_size * fill_up<T>(keys));
  Room<N> query_panels(wide_size * fill_up<T>(block)), up_panels(wide_size * fill_up<T>(block));
  Room<float> sums(block * wide_size), key_sums(keys * wide_size), value_sums(keys * wide_size);
  Slopes<T> found(block, wide);
  const bool has_panels = key_panels != nullptr && query_panels != nullptr && up_panels != nullptr;
  const bool has_sums = sums != nullptr && key_sums != nullptr && value_sums != nullptr;
  if (!again.has_room() || !has_panels || !has_sums || !found.has_room()) return false;
  for (int64_t unit = begin; unit < end; ++unit) {
    const Head head(given, unit);
    again.open(head);
    pack_inputs(from.keys + head.memory, given.memory_step, keys, size, key_panels);
    for (int64_t first = 0; first < given.num_queries; first += block) {
      const int64_t rows = again.count_rows(first);
      again.start(head, first);
      for (int64_t row = 0; row < rows; ++row) {
        const auto keep = [&](int64_t p, float* w, const float* s, const float* factor) {
          const int64_t place = row * wide + p * kPanel;
          for (int c = 0; factor != nullptr && c < kPanel; ++c) w[c] *= factor[c];
          round_panel(w, found.weights + place);
          round_panel(s, found.scores + place);
        };
        again.slope_row(head, first, row, given.scale, keep);
      }
      found.pair(rows);
      multiply<T>({found.scores, {wide, kPair}}, rows, key_panels, keys, size, sums);
      write_strip(sums, rows, size, gradient.queries + head.queries + first * given.query_step,
                  given.query_step);
      pack_inputs(again.query(head, first), given.query_step, rows, size, query_panels);
      pack_inputs(again.up(head, first), width, rows, size, up_panels);
      const Steps by_key = {kPair, kPair * wide};
      multiply<T>({found.paired_scores, by_key}, keys, query_panels, rows, size, key_sums, first > 0);
      multiply<T>({found.paired_weights, by_key}, keys, up_panels, rows, size, value_sums, first > 0);
    }
    write_strip(key_sums, keys, size, gradient.keys + head.memory, given.memory_step);
    write_strip(value_sums, keys, size, gradient.values + head.memory, given.memory_step);
  }
  return true;
}

template <typename T>
bool sum_bias(const Attended<const T>& from, const T* bias, const T* upstream,
              const Attention& given, BiasHeads heads, float* sums) {
  Repeated<T> again(from, bias, upstream, given);
  if (!again.has_room()) return false;
  const int64_t step = given.bias_steps[3];
  for (int64_t i = 0; i < heads.count; ++i) {
    const Head head(given, heads.first + i * heads.step);
    again.open(head);
    for (int64_t first = 0; first < given.num_queries; first += again.block()) {
      const int64_t rows = again.count_rows(first);
      again.start(head, first);
      for (int64_t row = 0; row < rows; ++row) {
        float* out = sums + (first + row) * given.bias_steps[2];
        const auto add = [&](int64_t p, float*, const float* s, const float*) {
          const int64_t left = given.num_keys - p * kPanel, count = left < kPanel ? left : kPanel;
          for (int64_t c = 0; c < count; ++c) out[(p * kPanel + c) * step] += s[c];
        };
        again.slope_row(head, first, row, 1.0f, add);
      }
    }
  }
  return true;
}

}  // namespace

#define QUINTAIN_DEFINE_ATTEND(T)                                                                \
  bool attend(const Attended<const T>& from, const T* bias, const Attention& given, T* mixed,    \
              int64_t begin, int64_t end) {                                                      \
    return forward(from, bias, given, mixed, begin, end);                                        \
  }                                                                                              \
  bool attend_gradient(const Attended<const T>& from, const T* bias, const T* upstream,          \
                       const Attention& given, const Attended<T>& gradient, int64_t begin,       \
                       int64_t end) {                                                            \
    return backward(from, bias, upstream, given, gradient, begin, end);                          \
  }                                                                                              \
  bool attend_bias_gradient(const Attended<const T>& from, const T* bias, const T* upstream,     \
                            const Attention& given, BiasHeads heads, float* sums) {              \
    return sum_bias(from, bias, upstream, given, heads, sums);                                   \
  }
QUINTAIN_DEFINE_ATTEND(float)
QUINTAIN_DEFINE_ATTEND(bf16)

}  // namespace QUINTAIN_ISA
}  // namespace quintain
