// Command log speaks of notes, trees and tiles with the packages of Go's own checksum database (golang.org/x/mod), which
// C2SP's formats come from: one JSON object a line in, one out. Of what is checked here only the cosignature is ours:
// x/mod knows plain signatures and takes a verifier for any other.
package main

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type asked struct {
	Does    string   `json:"does"`
	Name    string   `json:"name"`
	Text    string   `json:"text"`
	Note    string   `json:"note"`
	Keys    []string `json:"keys"`
	Entries [][]byte `json:"entries"`
	Size    int64    `json:"size"`
	Old     int64    `json:"old"`
	Index   int64    `json:"index"`
	Proof   [][]byte `json:"proof"`
	Root    []byte   `json:"root"`
	OldRoot []byte   `json:"old_root"`
	Leaf    []byte   `json:"leaf"`
}

// cosigner verifies what c2sp.org/tlog-cosignature calls cosignature/v1.
type cosigner struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

func (c cosigner) Name() string    { return c.name }
func (c cosigner) KeyHash() uint32 { return c.hash }
func (c cosigner) Verify(msg, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	time := binary.BigEndian.Uint64(sig)
	signed := fmt.Sprintf("cosignature/v1\ntime %d\n%s", time, msg)
	return ed25519.Verify(c.key, []byte(signed), sig[8:])
}

func verifier(vkey string) (note.Verifier, error) {
	parts := strings.SplitN(vkey, "+", 3)
	if len(parts) != 3 {
		return nil, errors.New("no key")
	}
	data, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(data) != 33 || data[0] != 4 {
		return note.NewVerifier(vkey)
	}
	hash, err := strconv.ParseUint(parts[1], 16, 32)
	sum := sha256.Sum256(append([]byte(parts[0]+"\n"), data...))
	if err != nil || uint32(hash) != binary.BigEndian.Uint32(sum[:]) {
		return nil, errors.New("another key's id")
	}
	return cosigner{parts[0], uint32(hash), ed25519.PublicKey(data[1:])}, nil
}

type hashes []tlog.Hash

func (h hashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var found []tlog.Hash
	for _, index := range indexes {
		found = append(found, h[index])
	}
	return found, nil
}

func tree(entries [][]byte) (hashes, error) {
	var stored hashes
	for i, entry := range entries {
		more, err := tlog.StoredHashes(int64(i), entry, stored)
		if err != nil {
			return nil, err
		}
		stored = append(stored, more...)
	}
	return stored, nil
}

func one(data []byte) (hash tlog.Hash) { copy(hash[:], data); return hash }

func many(data [][]byte) (found []tlog.Hash) {
	for _, hash := range data {
		found = append(found, one(hash))
	}
	return found
}

func bytes(found []tlog.Hash) [][]byte {
	data := [][]byte{}
	for i := range found {
		data = append(data, found[i][:])
	}
	return data
}

func answer(a asked) (map[string]any, error) {
	switch a.Does {
	case "sign":
		secret, public, err := note.GenerateKey(rand.Reader, a.Name)
		if err != nil {
			return nil, err
		}
		signer, err := note.NewSigner(secret)
		if err != nil {
			return nil, err
		}
		signed, err := note.Sign(&note.Note{Text: a.Text}, signer)
		return map[string]any{"note": string(signed), "key": public}, err
	case "open":
		var known []note.Verifier
		for _, key := range a.Keys {
			found, err := verifier(key)
			if err != nil {
				return nil, err
			}
			known = append(known, found)
		}
		opened, err := note.Open([]byte(a.Note), note.VerifierList(known...))
		if err != nil {
			return nil, err
		}
		names := []string{}
		for _, signature := range opened.Sigs {
			names = append(names, signature.Name)
		}
		return map[string]any{"text": opened.Text, "names": names, "others": len(opened.UnverifiedSigs)}, nil
	case "prove":
		stored, err := tree(a.Entries)
		if err != nil {
			return nil, err
		}
		root, err := tlog.TreeHash(a.Size, stored)
		if err != nil {
			return nil, err
		}
		old, err := tlog.TreeHash(a.Old, stored)
		if err != nil {
			return nil, err
		}
		inclusion, err := tlog.ProveRecord(a.Size, a.Index, stored)
		if err != nil {
			return nil, err
		}
		growth, err := tlog.ProveTree(a.Size, a.Old, stored)
		return map[string]any{
			"root": root[:], "old_root": old[:], "inclusion": bytes(inclusion), "growth": bytes(growth),
		}, err
	case "check inclusion":
		return map[string]any{}, tlog.CheckRecord(many(a.Proof), a.Size, one(a.Root), a.Index, one(a.Leaf))
	case "check growth":
		return map[string]any{}, tlog.CheckTree(many(a.Proof), a.Size, one(a.Root), a.Old, one(a.OldRoot))
	case "tiles":
		stored, err := tree(a.Entries)
		if err != nil {
			return nil, err
		}
		found := map[string][]byte{}
		for _, tile := range tlog.NewTiles(8, 0, a.Size) {
			data, err := tlog.ReadTileData(tile, stored)
			if err != nil {
				return nil, err
			}
			found[tile.Path()] = data
		}
		return map[string]any{"tiles": found}, nil
	}
	return nil, errors.New("no such thing")
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var a asked
		said := map[string]any{}
		err := json.Unmarshal(lines.Bytes(), &a)
		if err == nil {
			said, err = answer(a)
		}
		if err != nil {
			said = map[string]any{"error": err.Error()}
		}
		if out.Encode(said) != nil {
			return
		}
	}
}
