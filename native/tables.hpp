// Hashing and the one hash table of the engine.
//
// IntMap maps 64-bit keys to small values by open addressing with backward-shift deletion: no tombstones,
// so a table that saw a million removals is as quick as a new one. The hash is seeded per process, so no
// subscriber can choose literals that collide.
#pragma once
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

namespace runnel {

inline const std::uint64_t kSeed = [] {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32 | device()) | 1;
}();

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_int(std::uint64_t key) {
    return mix(key ^ 0x9E3779B97F4A7C15ull, kSeed ^ 0xD6E8FEB86659FD93ull);
}

inline std::uint64_t hash_bytes(std::string_view text, std::uint64_t salt = 0) {
    std::uint64_t h = kSeed ^ mix(text.size() + 1, 0xA0761D6478BD642Full ^ salt);
    const char* p = text.data();
    std::size_t left = text.size();
    for (; left >= 8; p += 8, left -= 8) {
        std::uint64_t word;
        std::memcpy(&word, p, 8);
        h = mix(h ^ word, 0xE7037ED1A0B428DBull ^ kSeed);
    }
    std::uint64_t tail = 0;
    std::memcpy(&tail, p, left);
    return mix(h ^ tail, 0x8EBC6AF09C88C6E3ull ^ kSeed);
}

template <class V>
class IntMap {
   public:
    V* find(std::uint64_t key) {
        if (count_ == 0) return nullptr;
        for (std::size_t i = home(key);; i = (i + 1) & mask_) {
            if (!cells_[i].used) return nullptr;
            if (cells_[i].key == key) return &cells_[i].value;
        }
    }

    // The value stored under key, made with V{} where there was none.
    V& at(std::uint64_t key) {
        if (V* found = find(key)) return *found;
        if ((count_ + 1) * 4 > cells_.size() * 3) grow();
        std::size_t i = home(key);
        while (cells_[i].used) i = (i + 1) & mask_;
        cells_[i] = Cell{key, V{}, true};
        ++count_;
        return cells_[i].value;
    }

    bool erase(std::uint64_t key) {
        if (count_ == 0) return false;
        std::size_t i = home(key);
        for (; cells_[i].key != key || !cells_[i].used; i = (i + 1) & mask_)
            if (!cells_[i].used) return false;
        // Close the gap: pull back every later cell of the run whose home is not after the gap.
        for (std::size_t j = (i + 1) & mask_; cells_[j].used; j = (j + 1) & mask_) {
            if (((j - home(cells_[j].key)) & mask_) >= ((j - i) & mask_)) {
                cells_[i] = cells_[j];
                i = j;
            }
        }
        cells_[i] = Cell{};
        if (--count_ == 0) std::vector<Cell>().swap(cells_);
        return true;
    }

    std::size_t size() const { return count_; }

    // The value of a table that has just one.
    V& only() {
        std::size_t i = 0;
        while (!cells_[i].used) ++i;
        return cells_[i].value;
    }

    template <class F>
    void each(F&& f) {
        for (Cell& cell : cells_)
            if (cell.used) f(cell.key, cell.value);
    }

   private:
    struct Cell {
        std::uint64_t key = 0;
        V value{};
        bool used = false;
    };
    std::size_t home(std::uint64_t key) const { return hash_int(key) & mask_; }
    void grow() {
        std::vector<Cell> old(cells_.empty() ? 2 : cells_.size() * 2);
        old.swap(cells_);
        mask_ = cells_.size() - 1;
        for (Cell& cell : old) {
            if (!cell.used) continue;
            std::size_t i = home(cell.key);
            while (cells_[i].used) i = (i + 1) & mask_;
            cells_[i] = cell;
        }
    }

    std::vector<Cell> cells_;
    std::size_t mask_ = 0;
    std::size_t count_ = 0;
};

}  // namespace runnel
