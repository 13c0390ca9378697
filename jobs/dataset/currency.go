package dataset

import "strings"

// The codes of ISO 4217 by the number of decimals of their minor unit: "List One:
// Current Currency & Funds" of the maintenance agency SIX, as of 2026-09-17 (178
// codes), and those withdrawn from 2016 on, because ledgers keep a currency for
// longer than the standard does.
const (
	decimals0 = `
		BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF`
	decimals2 = `
		AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD
		BTN BWP BYN BZD CAD CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP
		DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF
		IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL
		MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR
		NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP
		SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD
		USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG`
	decimals3 = `BHD IQD JOD KWD LYD OMR TND`
	decimals4 = `CLF UYW`

	// The standard says "N.A.": metals, units of account, testing, no currency.
	decimalsNone = `XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX`

	withdrawn0 = `BYR`
	withdrawn2 = `ANG BGN CUC HRK MRO SLL STD VEF ZWL`
)

// noMinorUnit marks a code whose minor unit the standard leaves open.
const noMinorUnit = -1

// exponents maps codes to decimals. It never changes.
var exponents = func() map[string]int8 {
	m := make(map[string]int8, 256)
	for _, list := range []struct {
		codes    string
		exponent int8
	}{
		{decimals0, 0}, {withdrawn0, 0}, {decimals2, 2}, {withdrawn2, 2},
		{decimals3, 3}, {decimals4, 4}, {decimalsNone, noMinorUnit},
	} {
		for code := range strings.FieldsSeq(list.codes) {
			m[code] = list.exponent
		}
	}
	return m
}()

// Exponent returns the number of decimals of the currency's minor unit: 2 for
// "EUR", 0 for "JPY". It is false for a code that is not known or, like "XAU",
// has no minor unit.
func Exponent(currency string) (int, bool) {
	e, ok := exponents[currency]
	if !ok || e == noMinorUnit {
		return 0, false
	}
	return int(e), true
}

// KnownCurrency reports whether the code, in capitals, is one of ISO 4217, those
// without a minor unit and those withdrawn from 2016 on among them.
func KnownCurrency(code string) bool {
	_, ok := exponents[code]
	return ok
}

// decimals returns how many decimals an amount is shown with at least.
func decimals(currency string) int {
	if e, ok := Exponent(currency); ok {
		return e
	}
	return 2
}

// FormatMoney returns the amount mant / 10^scale without its currency, with at
// least the decimals of the currency (2 when that is not known) and beyond them
// no zeros at the end: "1234.50", and "0.00125" for a fee of an eighth of a cent.
func FormatMoney(mant int64, scale int, currency string) string {
	var buf [48]byte
	return string(AppendMoney(buf[:0], mant, scale, currency))
}

// AppendMoney appends what FormatMoney returns.
func AppendMoney(dst []byte, mant int64, scale int, currency string) []byte {
	return appendDecimal(dst, SumOf(mant), scale, decimals(currency))
}
