// A trained encoder-decoder, its weights packed, and what goes on in one pass of it.
#ifndef QUINTAIN_KERNELS_TRANSLATION_H_
#define QUINTAIN_KERNELS_TRANSLATION_H_

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "decoding.h"
#include "linear.h"

namespace quintain {
namespace translation {

constexpr float kMinusInfinity = -INFINITY;

// Numbers at a multiple of 64 bytes, which are not set to anything.
class Buffer {
 public:
  void reserve(int64_t bytes) {
    if (bytes <= size_) return;
    size_ = (bytes + bytes / 4 + 63) / 64 * 64;
    data_.reset(static_cast<char*>(std::aligned_alloc(64, size_)));
    if (data_ == nullptr) throw std::bad_alloc();
  }
  float* floats(int64_t count) {
    reserve(count * 4);
    return reinterpret_cast<float*>(data_.get());
  }
  char* bytes(int64_t count) {
    reserve(count);
    return data_.get();
  }
  char* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> data_;
  int64_t size_ = 0;
};

inline int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// A matrix that owns its numbers.
struct PackedMatrix {
  Matrix matrix = {};
  Buffer numbers;
  std::vector<float> bias, scales;
  std::vector<int32_t> sums;

  // Takes float32 kernels [inputs, outputs], or int8 ones with a scale for each output.
  PackedMatrix(Precision precision, int64_t inputs, int64_t outputs, const void* kernel,
               const float* given_scales, const float* given_bias) {
    const int64_t columns = round_up(outputs, kPanel);
    const int64_t size = precision == Precision::kFloat32 ? 4
                         : precision == Precision::kBfloat16 ? 2 : 1;
    const int64_t together = 4 / size;  // Inputs of a column that are beside each other.
    char* packed = numbers.bytes(columns * inputs * size);
    std::memset(packed, 0, columns * inputs * size);
    bias.assign(columns, 0.0f);
    if (given_bias != nullptr) std::memcpy(bias.data(), given_bias, outputs * 4);
    if (precision == Precision::kInt8) {
      scales.assign(columns, 0.0f);
      sums.assign(columns, 0);
      std::memcpy(scales.data(), given_scales, outputs * 4);
    }
    for (int64_t k = 0; k < inputs; ++k) {
      for (int64_t c = 0; c < outputs; ++c) {
        const int64_t panel = c / kPanel * kPanel * inputs;
        const int64_t place = panel + (k / together * kPanel + c % kPanel) * together + k % together;
        if (precision == Precision::kInt8) {
          const int8_t value = static_cast<const int8_t*>(kernel)[k * outputs + c];
          reinterpret_cast<int8_t*>(packed)[place] = value;
          sums[c] += 128 * value;
          continue;
        }
        const float value = static_cast<const float*>(kernel)[k * outputs + c];
        if (precision == Precision::kFloat32) {
          reinterpret_cast<float*>(packed)[place] = value;
        } else {
          uint32_t bits;
          std::memcpy(&bits, &value, 4);
          const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
          reinterpret_cast<uint16_t*>(packed)[place] =
              static_cast<uint16_t>(std::isnan(value) ? 0x7fc0 : rounded);
        }
      }
    }
    matrix = {precision, inputs, outputs, packed, bias.data(), scales.data(), sums.data()};
  }
};

struct Norm {
  std::vector<float> gamma, beta;
};

// The order of an encoder's matrices, and of a decoder's; its norms are in the order of its parts.
enum EncoderPart { kQueryKeyValue, kOutput, kExpand, kContract, kEncoderParts };
enum DecoderPart {
  kOwnQueryKeyValue, kOwnOutput, kSourceQuery, kSourceKeyValue, kSourceOutput, kInnerExpand,
  kInnerContract, kDecoderParts
};

struct Sizes {
  int64_t width, heads, encoder_layers, decoder_layers, source_ids, target_ids, position_repeats;
  int64_t encoder_norm_first, decoder_norm_first, embed_start, encoder_activation,
      decoder_activation;
};

// The weights; many searches may use them at the same time.
struct Model {
  Sizes sizes;
  float encoder_epsilon, decoder_epsilon;
  std::vector<float> source_table, target_table;
  std::vector<std::unique_ptr<PackedMatrix>> matrices;  // Encoder's, decoder's, then the logits.
  std::vector<Norm> norms;  // Two of each encoder layer, its last; three of the decoder's, its last.

  const Matrix& encoder_matrix(int64_t layer, int part) const {
    return matrices[layer * kEncoderParts + part]->matrix;
  }
  const Matrix& decoder_matrix(int64_t layer, int part) const {
    return matrices[sizes.encoder_layers * kEncoderParts + layer * kDecoderParts + part]->matrix;
  }
  const Matrix& logits() const { return matrices.back()->matrix; }
  const Norm& encoder_norm(int64_t layer, int part) const { return norms[layer * 2 + part]; }
  const Norm& decoder_norm(int64_t layer, int part) const {
    return norms[sizes.encoder_layers * 2 + 1 + layer * 3 + part];
  }
};

// The sinusoids of positions, computed where they are first needed.
class Positions {
 public:
  explicit Positions(const Sizes& sizes) : width_(sizes.width), repeats_(sizes.position_repeats) {}

  const float* get(int64_t position) {
    const int64_t waves = width_ / repeats_ / 2;
    while (static_cast<int64_t>(table_.size()) <= position * width_) {
      const float place = static_cast<float>(table_.size() / width_);
      std::vector<float> sines(waves), cosines(waves);
      for (int64_t i = 0; i < waves; ++i) {
        const float last = static_cast<float>(waves > 1 ? waves - 1 : 1);
        const float exponent = static_cast<float>(i) / last;
        const float angle = place * std::exp(-9.210340371976184f * exponent);
        sines[i] = std::sin(angle);
        cosines[i] = std::cos(angle);
      }
      for (int64_t repeat = 0; repeat < repeats_; ++repeat) {
        table_.insert(table_.end(), sines.begin(), sines.end());
        table_.insert(table_.end(), cosines.begin(), cosines.end());
      }
    }
    return table_.data() + position * width_;
  }

 private:
  int64_t width_, repeats_;
  std::vector<float> table_;
};

// Rows on their way through the layers.
class Rows {
 public:
  explicit Rows(const Model& model) : model_(model), positions_(model.sizes) {}

  // Makes room for so many rows.
  void start(int64_t rows) {
    count = rows;
    x = x_.floats(rows * width());
    entered_.floats(rows * width());
    mixed = mixed_.floats(rows * width());
    output_.floats(rows * width());
    queries = queries_.floats(rows * 3 * width());
  }

  void embed(int64_t row, const std::vector<float>& table, int64_t id, int64_t position,
             bool is_zero) {
    const float scale = is_zero ? 0.0f : std::sqrt(static_cast<float>(width()));
    const float* from = table.data() + id * width();
    const float* place = positions_.get(position);
    for (int64_t i = 0; i < width(); ++i) x[row * width() + i] = from[i] * scale + place[i];
  }

  // Returns what goes into a part of a layer.
  const float* enter(const Norm& norm, float epsilon, bool is_norm_first) {
    if (!is_norm_first) return x;
    float* entered = entered_.floats(count * width());
    QUINTAIN_DISPATCH(normalize, x, nullptr, norm.gamma.data(), norm.beta.data(), epsilon, count,
                      width(), entered);
    return entered;
  }

  // Adds what a part of a layer computed of `inputs`.
  void leave(const Matrix& matrix, const float* inputs, const Norm& norm, float epsilon,
             bool is_norm_first) {
    float* output = output_.floats(count * width());
    multiply(matrix, inputs, Activation::kNone, output);
    if (is_norm_first) {
      QUINTAIN_DISPATCH(add_rows, x, output, count * width(), x);
    } else {
      QUINTAIN_DISPATCH(normalize, x, output, norm.gamma.data(), norm.beta.data(), epsilon, count,
                        width(), x);
    }
  }

  void multiply(const Matrix& matrix, const float* inputs, Activation activation, float* outputs) {
    char* scratch = scratch_.bytes(count * (2 * matrix.inputs + 4));
    QUINTAIN_DISPATCH(multiply, matrix, inputs, count, activation, outputs, matrix.outputs,
                      scratch);
  }

  void feed_forward(const Matrix& expand, const Matrix& contract, int64_t activation,
                    const Norm& norm, float epsilon, bool is_norm_first) {
    float* inner = inner_.floats(count * expand.outputs);
    const bool is_gated = static_cast<Activation>(activation) == Activation::kSwiglu;
    multiply(expand, enter(norm, epsilon, is_norm_first),
             is_gated ? Activation::kNone : static_cast<Activation>(activation), inner);
    if (is_gated) QUINTAIN_DISPATCH(swiglu, inner, count, contract.inputs, inner);
    leave(contract, inner, norm, epsilon, is_norm_first);
  }

  void normalize_last(const Norm& norm, float epsilon) {
    QUINTAIN_DISPATCH(normalize, x, nullptr, norm.gamma.data(), norm.beta.data(), epsilon, count,
                      width(), x);
  }

  void attend(int64_t row, const float* row_queries, const Past& past) {
    const int64_t heads = model_.sizes.heads;
    float* scratch = weights_.floats(heads * (past.count + 16));
    QUINTAIN_DISPATCH(attend, row_queries, past, heads, width() / heads, mixed + row * width(),
                      scratch);
  }

  int64_t width() const { return model_.sizes.width; }

  int64_t count = 0;
  float* x = nullptr;        // [count, width]
  float* mixed = nullptr;    // [count, width]
  float* queries = nullptr;  // [count, 3 * width], or fewer

 private:
  const Model& model_;
  Positions positions_;
  Buffer x_, entered_, mixed_, output_, queries_, inner_, scratch_, weights_;
};

}  // namespace translation
}  // namespace quintain

#endif  // QUINTAIN_KERNELS_TRANSLATION_H_
